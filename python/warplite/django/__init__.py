"""Django: with "warplite.django" in INSTALLED_APPS every connection to a SQLite database has the extension."""

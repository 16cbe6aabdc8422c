// The compiler keeps "./ledger" as it is written; Node wants "./ledger.js".
import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

function walk(folder) {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) walk(path);
    else if (name.endsWith(".js")) {
      const text = readFileSync(path, "utf8");
      writeFileSync(path, text.replace(/from "(\.[^"]+?)(?<!\.json)"/g, 'from "$1.js"'));
    }
  }
}
walk(process.argv[2]);

// out/ → src/neoserve/faces/web, without what only Next's own server reads. `--check` compares.
import { cpSync, existsSync, readFileSync, readdirSync, rmSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(dirname(fileURLToPath(import.meta.url)));
const out = join(here, "out");
const web = join(here, "..", "src", "neoserve", "faces", "web");

function files(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    return statSync(path).isDirectory() ? files(path) : [path];
  });
}

if (process.argv.includes("--check")) {
  const built = new Set(files(out).map((file) => relative(out, file)));
  const kept = new Set(files(web).map((file) => relative(web, file)));
  const differs = [...new Set([...built, ...kept])].filter((name) =>
    !built.has(name) || !kept.has(name) ||
    !readFileSync(join(out, name)).equals(readFileSync(join(web, name))));
  if (differs.length) {
    console.error(`src/neoserve/faces/web is not what dashboard/ builds: run make web\n${differs.join("\n")}`);
    process.exit(1);
  }
  console.log(`${built.size} files, as built`);
} else {
  rmSync(web, { recursive: true, force: true });
  cpSync(out, web, { recursive: true });
  console.log(`${files(web).length} files in src/neoserve/faces/web`);
}

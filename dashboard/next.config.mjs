import { createHash } from "node:crypto";
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";

const SOURCES = ["lib", "pages", "public", "styles", "ui", "package-lock.json"];

function files(path) {
  return statSync(path).isDirectory()
    ? readdirSync(path).sort().flatMap((name) => files(join(path, name))) : [path];
}

/** The same for the same sources, so that two builds are the same bytes; another one for others,
 * so that a browser which keeps files for a year asks for the new ones. */
function buildId() {
  const hash = createHash("sha256");
  for (const file of SOURCES.flatMap(files)) hash.update(file).update(readFileSync(file));
  return hash.digest("hex").slice(0, 12);
}

export default {
  output: "export",
  generateBuildId: buildId,
  reactStrictMode: true,
  images: { unoptimized: true },
  devIndicators: false,
};

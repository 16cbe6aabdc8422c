__turbopack_load_page_chunks__("/cost", [
  "static/chunks/0jyh2gnw1pzf8.js",
  "static/chunks/1d78zr10zxxg9.js",
  "static/chunks/0g7cspwk3tqpx.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

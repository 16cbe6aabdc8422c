__turbopack_load_page_chunks__("/hardware", [
  "static/chunks/1ewvv476xs1cv.js",
  "static/chunks/23km3vn0pk16a.js",
  "static/chunks/turbopack-077hmtqrhcoji.js"
])

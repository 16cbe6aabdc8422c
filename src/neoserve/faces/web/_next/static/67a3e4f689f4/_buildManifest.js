self.__BUILD_MANIFEST = {
  "/": [
    "static/chunks/1hu5-ijbik3b0.js"
  ],
  "/404": [
    "static/chunks/3ywe2ulfzjcy3.js"
  ],
  "/_error": [
    "static/chunks/1_il-702jv0po.js"
  ],
  "/agent": [
    "static/chunks/0f_1dabtoait7.js"
  ],
  "/campaign": [
    "static/chunks/07clytgbx14ce.js"
  ],
  "/cost": [
    "static/chunks/1-52z610io8kg.js"
  ],
  "/evidence": [
    "static/chunks/042t4gvj81_du.js"
  ],
  "/hardware": [
    "static/chunks/3ckk42mb632md.js"
  ],
  "/ledger": [
    "static/chunks/0oulbs21as79s.js"
  ],
  "/plan": [
    "static/chunks/1tq1yqswlc4gc.js"
  ],
  "__rewrites": {
    "afterFiles": [],
    "beforeFiles": [],
    "fallback": []
  },
  "sortedPages": [
    "/",
    "/404",
    "/_app",
    "/_error",
    "/agent",
    "/campaign",
    "/cost",
    "/evidence",
    "/hardware",
    "/ledger",
    "/plan"
  ]
};self.__TURBOPACK_PAGE_BOOTSTRAP = {"/404":{"otherChunks":["static/chunks/1bzd5j7jit8hn.js"],"runtimeModuleIds":[783,8458]},"/agent":{"otherChunks":["static/chunks/2ir2h3jyoqean.js"],"runtimeModuleIds":[783,5579]},"/campaign":{"otherChunks":["static/chunks/34_6iarsfm-bp.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,7102]},"/cost":{"otherChunks":["static/chunks/0sl4p2euxifpo.js","static/chunks/0re77bklofj_a.js","static/chunks/18p-g6f5et_z1.js"],"runtimeModuleIds":[783,2868]},"/evidence":{"otherChunks":["static/chunks/3kgzyt3m1ng3x.js","static/chunks/0re77bklofj_a.js"],"runtimeModuleIds":[783,5284]},"/hardware":{"otherChunks":["static/chunks/21w_d-tfji4ar.js"],"runtimeModuleIds":[783,1394]},"/":{"otherChunks":["static/chunks/1tqnexzshcycm.js","static/chunks/0re77bklofj_a.js","static/chunks/0recysnvlo8f5.js"],"runtimeModuleIds":[783,9675]},"/ledger":{"otherChunks":["static/chunks/14-2q0_snqt5g.js"],"runtimeModuleIds":[783,5061]},"/plan":{"otherChunks":["static/chunks/1ghxk-stb1l5t.js"],"runtimeModuleIds":[783,2292]},"/_app":{"otherChunks":["static/chunks/3p4h8lrci8pz8.js","static/chunks/38k7p0oxw2d-1.js","static/chunks/418mj0qxe5an5.js","static/chunks/0vy_umx79cwpr.css"],"runtimeModuleIds":[783,8146]},"/_error":{"otherChunks":["static/chunks/306euk3hkl2h4.js"],"runtimeModuleIds":[783,184]}};self.__TURBOPACK_CHUNK_LOADING_GLOBAL = "TURBOPACK";self.__BUILD_MANIFEST_CB && self.__BUILD_MANIFEST_CB()
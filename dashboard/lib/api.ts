// The server's JSON. What goes wrong is one sentence, the server's own where it said one.

export class ApiError extends Error {
  constructor(readonly status: number, sentence: string) { super(sentence); }
}

export async function getJson<T>(path: string, signal?: AbortSignal): Promise<T> {
  return answer<T>(await reach(path, { signal }));
}

export async function postJson<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  return answer<T>(await reach(path, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body),
    signal,
  }));
}

export async function deleteJson<T>(path: string): Promise<T> {
  return answer<T>(await reach(path, { method: "DELETE" }));
}

export async function getBytes(path: string, signal?: AbortSignal): Promise<Uint8Array> {
  const response = await reach(path, { signal });
  if (!response.ok) await answer(response);
  return new Uint8Array(await response.arrayBuffer());
}

async function reach(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(path, init);
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new ApiError(0, "the server does not answer: is `neoserve ui` still running?");
  }
}

async function answer<T>(response: Response): Promise<T> {
  let data: unknown;
  try {
    data = await response.json();
  } catch {
    throw new ApiError(response.status, `the server answered HTTP ${response.status}, no JSON`);
  }
  if (response.ok) return data as T;
  const said = (data as { error?: string }).error;
  throw new ApiError(response.status, said ?? `the server answered HTTP ${response.status}`);
}

export const runPath = (run: string, rest = ""): string =>
  `/api/runs/${encodeURIComponent(run)}${rest}`;

export const filePath = (run: string, name: string): string =>
  runPath(run, `/files/${name.split("/").map(encodeURIComponent).join("/")}`);

export const blobPath = (run: string, digest: string): string =>
  filePath(run, `blobs/${digest.replace(/^sha256:/, "")}`);

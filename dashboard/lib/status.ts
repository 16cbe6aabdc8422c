import { getJson } from "./api";
import { once } from "./state";

export interface Status {
  version: string; needs_token: boolean; has_token: boolean; may_tune: boolean; results: string[];
}

/** What this server allows. A token in the address is exchanged first, and taken out of it. */
export const serverStatus = (): Promise<Status> => once("status", async () => {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(history.state, "", location.pathname + location.search);
    await exchange(given).catch(() => undefined);
  }
  const found = await getJson<Status>("/api/status");
  if (given && found.has_token && found.needs_token) location.reload();
  return found;
});

/** A token for a cookie. */
export async function exchange(token: string): Promise<void> {
  const response = await fetch("/api/session", {
    method: "POST", headers: { authorization: `Bearer ${token}` },
  });
  if (!response.ok) throw new Error("the token is not the one that the server printed");
}

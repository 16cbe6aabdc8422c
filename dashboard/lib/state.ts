import { useRouter } from "next/router";
import { useCallback, useEffect, useRef, useState } from "react";

const SETTLE_MS = 200; // a slider moves many times a second; the address follows when it rests

type Words = Record<string, string>;

/** A view's state, kept in the address: what differs from its defaults. */
export function useUrlState<T extends Words>(
  defaults: T,
): [T, (change: Partial<T>, push?: boolean) => void, boolean] {
  const router = useRouter();
  const [state, setState] = useState<T>(defaults);
  const [ready, setReady] = useState(false);
  const latest = useRef(state);
  const written = useRef("");
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const start = useRef(defaults);

  useEffect(() => {
    if (!router.isReady) return;
    const query = router.asPath.split("?")[1]?.split("#")[0] ?? "";
    if (ready && query === written.current) return;
    written.current = query;
    const given = new URLSearchParams(query);
    const next = { ...start.current };
    for (const key of Object.keys(next)) {
      const value = given.get(key);
      if (value !== null) (next as Words)[key] = value;
    }
    latest.current = next;
    setState(next);
    setReady(true);
  }, [router.isReady, router.asPath, ready]);

  const set = useCallback((change: Partial<T>, push = false) => {
    latest.current = { ...latest.current, ...change };
    setState(latest.current);
    clearTimeout(timer.current);
    const write = (): void => {
      const query = new URLSearchParams();
      for (const [key, value] of Object.entries(latest.current)) {
        if (value !== start.current[key]) query.set(key, value);
      }
      written.current = query.toString();
      const url = written.current ? `${router.pathname}?${written.current}` : router.pathname;
      void (push ? router.push : router.replace)(url, undefined, { shallow: true, scroll: false });
    };
    if (push) write();
    else timer.current = setTimeout(write, SETTLE_MS);
  }, [router]);

  useEffect(() => () => clearTimeout(timer.current), []);
  return [state, set, ready];
}

export interface Loaded<T> {
  data: T | null; error: string; isLoading: boolean; reload: () => void;
}

/** What `load` brings for a key; null asks for nothing. Old data stays while new is fetched. */
export function useLoad<T>(
  key: string | null, load: (signal: AbortSignal) => Promise<T>, waitMs = 0,
): Loaded<T> {
  const [found, setFound] = useState<{ data: T | null; error: string; key: string | null }>(
    { data: null, error: "", key: null });
  const [turn, setTurn] = useState(0);
  const loader = useRef(load);
  loader.current = load;
  useEffect(() => {
    if (key === null) return;
    const abort = new AbortController();
    const timer = setTimeout(() => {
      loader.current(abort.signal).then(
        (data) => !abort.signal.aborted && setFound({ data, error: "", key }),
        (error: Error) => {
          if (!abort.signal.aborted) setFound({ data: null, error: error.message, key });
        });
    }, waitMs);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key, turn, waitMs]);
  const reload = useCallback(() => setTurn((n) => n + 1), []);
  const isLoading = key !== null && found.key !== key;
  return { data: key === null ? null : found.data, error: isLoading ? "" : found.error, isLoading, reload };
}

const kept = new Map<string, Promise<unknown>>();

/** Fetched once a page: the catalog does not change while the server runs. */
export function once<T>(key: string, load: () => Promise<T>): Promise<T> {
  if (!kept.has(key)) {
    kept.set(key, load().catch((error: unknown) => {
      kept.delete(key);
      throw error;
    }));
  }
  return kept.get(key) as Promise<T>;
}

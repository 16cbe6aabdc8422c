import Head from "next/head";
import Link from "next/link";
import { useRouter } from "next/router";
import { useEffect, useRef, type ReactNode } from "react";
import { Session } from "./session";

export const VIEWS: [string, string, string][] = [
  ["/", "Pareto", "Which configuration gives tokens cheapest?"],
  ["/plan", "Plan", "What should I run for my traffic and my SLO?"],
  ["/cost", "Cost", "What does a month cost, and from which volume does it pay?"],
  ["/campaign", "Campaign", "What is being tried, and what was ruled out?"],
  ["/evidence", "Evidence", "What really ran, and what does it prove?"],
  ["/ledger", "Ledger", "Was anything changed since it was written?"],
  ["/agent", "Agent", "What does an agent see?"],
  ["/hardware", "Hardware", "How do the generations differ?"],
];
const OF_A_RUN = ["/campaign", "/evidence", "/ledger"];

export function Shell({ answer, children }: { answer?: ReactNode; children: ReactNode }): ReactNode {
  const router = useRouter();
  const view = VIEWS.find(([path]) => path === router.pathname) ?? VIEWS[0];
  const run = typeof router.query.run === "string" ? router.query.run : "";
  const nav = useRef<HTMLElement>(null);
  useEffect(() => { // on a phone the row of views is wider than the page
    const here = nav.current?.querySelector<HTMLElement>("[aria-current]");
    if (nav.current && here) nav.current.scrollLeft = here.offsetLeft - nav.current.clientWidth / 2;
  }, [router.pathname]);
  return (
    <>
      <Head><title>{`${view[1]} · NeoServe`}</title></Head>
      <a className="skip" href="#main">Skip to content</a>
      <header className="rail">
        <Link href="/" className="word" aria-label="NeoServe, start"><b>Neo</b>Serve</Link>
        <nav aria-label="Views" ref={nav}>
          {VIEWS.map(([path, name]) => (
            <Link key={path} href={run && OF_A_RUN.includes(path) ? { pathname: path, query: { run } } : path}
              aria-current={path === router.pathname ? "page" : undefined} prefetch={false}>{name}</Link>
          ))}
        </nav>
        <Session />
      </header>
      <main id="main" tabIndex={-1}>
        <div className="ask">
          <h1>{view[2]}</h1>
          <div className="answer" aria-live="polite">{answer}</div>
        </div>
        {children}
      </main>
    </>
  );
}

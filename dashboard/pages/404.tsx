import Link from "next/link";
import type { ReactNode } from "react";
import { Shell } from "../ui/shell";

export default function NotFound(): ReactNode {
  return <Shell answer="There is no such page."><p><Link href="/">Start at the Pareto view</Link></p></Shell>;
}

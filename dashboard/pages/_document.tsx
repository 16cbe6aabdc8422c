import { Head, Html, Main, NextScript } from "next/document";
import type { ReactNode } from "react";

export default function Document(): ReactNode {
  return (
    <Html lang="en">
      <Head>
        <meta name="color-scheme" content="dark" />
        <meta name="theme-color" content="#000000" />
        <meta name="description" content="NeoServe: serving configurations, predicted, measured and proven" />
        <link rel="icon" href="/icon.svg" type="image/svg+xml" />
      </Head>
      <body><Main /><NextScript /></body>
    </Html>
  );
}

/**
 * The files that pages load: our style sheet and script, and htmx and uPlot as their packages ship them.
 *
 * Invariant: pages load nothing else, from no other host, and no script or style stands in a page.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { FastifyInstance } from 'fastify'

const TYPES = {
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  svg: 'image/svg+xml',
} as const

/** By the name in the address. */
const FILES: Readonly<Record<string, () => string>> = {
  'console.css': () => join(import.meta.dirname, 'assets/console.css'),
  'console.js': () => join(import.meta.dirname, 'assets/console.js'),
  'icon.svg': () => join(import.meta.dirname, 'assets/icon.svg'),
  'htmx.js': () => packaged('htmx.org', 'dist/htmx.min.js'),
  'uplot.css': () => packaged('uplot', 'dist/uPlot.min.css'),
  'uplot.js': () => packaged('uplot', 'dist/uPlot.iife.min.js'),
}

function packaged(name: string, file: string): string {
  return join(dirname(createRequire(import.meta.url).resolve(`${name}/package.json`)), file)
}

/** Serves the files below /assets/. Returns their addresses by name, which change when a file does. */
export function serveAssets(app: FastifyInstance): Readonly<Record<string, string>> {
  const addresses: Record<string, string> = {}
  for (const [name, path] of Object.entries(FILES)) {
    const content = readFileSync(path())
    const version = createHash('sha256').update(content).digest('base64url').slice(0, 12)
    addresses[name] = `/assets/${name}?v=${version}`
    const type = TYPES[name.split('.').at(-1) as keyof typeof TYPES]
    app.get(`/assets/${name}`, { config: { role: 'nobody', rateLimit: false } }, (_request, reply) =>
      reply.type(type).header('cache-control', 'public, max-age=31536000, immutable').send(content),
    )
  }
  return addresses
}

export const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join('; ')

export const HEADERS: Readonly<Record<string, string>> = {
  'content-security-policy': POLICY,
  'x-content-type-options': 'nosniff',
  // Not `no-referrer`: browsers would then send forms with the origin `null`.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'cache-control': 'no-store',
}

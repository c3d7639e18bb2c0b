/** Programs that npm has as packages: other versions of Node and Postgres. None of their scripts is run. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

/** Of Node; long-term since October 2026. */
export const NEWEST_LTS = '26'

/** The newest version of a package with this prefix (`24`, `15.18`), as `name@version`; else why there is none. */
export function newestOf(
  name: string,
  wanted: string,
): { readonly versioned: string } | { readonly why: string } {
  let versions: string
  try {
    versions = execFileSync('npm', ['view', name, 'versions', '--json'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    })
  } catch {
    return { why: `npm cannot be asked for ${name}: see whether \`npm view ${name}\` answers` }
  }
  // Those of Postgres are all betas, which a range of versions excludes.
  const newest = (JSON.parse(versions) as string[])
    .filter((version) => version === wanted || version.startsWith(`${wanted}.`))
    .sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    .at(-1)
  return newest === undefined
    ? { why: `npm has no ${name} of version ${wanted}` }
    : { versioned: `${name}@${newest}` }
}

/** A package in a new folder. */
export function unpacked(versioned: string, folder: string): string {
  mkdirSync(folder)
  process.stdout.write(`${versioned}\n`)
  execFileSync('npm', ['pack', versioned, '--silent', '--pack-destination', folder])
  const [file] = readdirSync(folder)
  execFileSync('tar', ['-xzf', join(folder, file!), '-C', folder, '--strip-components=1'])
  return folder
}

// Builds dist/ from src/, replacing an earlier build, and makes the command line executable.
//
// `--if-stale` keeps a dist/ that is newer than its sources. `npx intake-sync` in the checkout runs prepare for every
// user: it must then change nothing, disturb no running process, and work without write permission.
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = `${root}node_modules/typescript/bin/tsc`
const dist = `${root}dist`
/** Written last: a dist/ without it is incomplete. */
const stamp = `${dist}/.built`

if (!existsSync(tsc)) {
  // `npm ci --omit=dev` runs prepare too; a package that ships dist/ has nothing to build.
  process.exit(existsSync(`${dist}/cli.js`) ? 0 : 1)
}
if (process.argv.includes('--if-stale') && isFresh()) process.exit(0)

const draft = `${root}dist.${process.pid}.tmp`
const args = [tsc, '-p', `${root}tsconfig.build.json`, '--outDir', draft]
const { status } = spawnSync(process.execPath, args, { stdio: 'inherit' })
if (status === 0) {
  // What the console serves is no TypeScript.
  for (const folder of ['assets', 'views'])
    cpSync(`${root}src/console/${folder}`, `${draft}/console/${folder}`, { recursive: true })
  chmodSync(`${draft}/cli.js`, 0o755)
  writeFileSync(`${draft}/.built`, '')
  rmSync(dist, { recursive: true, force: true })
  renameSync(draft, dist)
} else {
  rmSync(draft, { recursive: true, force: true })
}
process.exit(status ?? 1)

function isFresh() {
  if (!existsSync(stamp) || !existsSync(`${dist}/cli.js`)) return false
  const built = statSync(stamp).mtimeMs
  const sources = readdirSync(`${root}src`, { recursive: true }).map((name) => `${root}src/${name}`)
  const settings = ['package.json', 'tsconfig.json', 'tsconfig.build.json'].map((name) => root + name)
  return [...sources, ...settings].every((file) => statSync(file).mtimeMs <= built)
}

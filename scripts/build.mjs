// Builds dist/ from src/ and makes the command line runnable. Removes what an earlier build left behind.
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, rmSync, symlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
const tsc = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url))
if (!existsSync(tsc)) {
  // `npm ci --omit=dev` runs prepare too; a package that ships dist/ has nothing to build.
  process.exit(existsSync(`${root}dist/cli.js`) ? 0 : 1)
}
rmSync(`${root}dist`, { recursive: true, force: true })
const { status } = spawnSync(process.execPath, [tsc, '-p', `${root}tsconfig.build.json`], {
  stdio: 'inherit',
})
if (status === 0) {
  chmodSync(`${root}dist/cli.js`, 0o755)
  linkCommand()
}
process.exit(status ?? 1)

// `npx intake-sync` in the checkout finds the command here. Without it, npx installs the folder into the cache of
// whoever calls it, which builds again, in place, and fails where the checkout is another user's.
function linkCommand() {
  const link = `${root}node_modules/.bin/intake-sync`
  if (process.platform === 'win32') return
  rmSync(link, { force: true })
  symlinkSync('../../dist/cli.js', link)
}

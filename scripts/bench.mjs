// Runs the benchmarks compiled, as the package is shipped: running TypeScript directly slows small functions by a tenth.
// Arguments are passed on to test/bench/run.ts.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
// One folder per run, so that two runs do not remove each other's code.
const built = `${root}.bench/${process.pid}`
const tsc = `${root}node_modules/typescript/bin/tsc`

/** The running process, and the exit code of the signal that stopped it. */
let child
let stopped = null
for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
]) {
  process.on(signal, () => {
    stopped = code
    child?.kill(signal)
  })
}

/** Runs Node to its end and returns the exit code. */
function run(args) {
  return new Promise((resolve) => {
    child = spawn(process.execPath, args, { stdio: 'inherit' })
    child.once('exit', (code) => resolve(stopped ?? code ?? 1))
  })
}

rmSync(built, { recursive: true, force: true })
try {
  process.exitCode = await run([tsc, '-p', `${root}tsconfig.bench.json`, '--outDir', built])
  if (process.exitCode === 0) {
    // Files that the code reads at run time.
    for (const name of ['sql', 'docs', 'package.json']) {
      if (!existsSync(`${built}/${name}`)) symlinkSync(`../../${name}`, `${built}/${name}`)
    }
    for (const name of ['views', 'assets'])
      symlinkSync(`../../../../src/console/${name}`, `${built}/src/console/${name}`)
    const args = ['--max-semi-space-size=32', `${built}/test/bench/run.js`, ...process.argv.slice(2)]
    process.exitCode = await run(args)
  }
} finally {
  rmSync(built, { recursive: true, force: true })
  // The last run to end removes the common folder.
  const folder = `${root}.bench`
  if (existsSync(folder) && readdirSync(folder).length === 0) rmSync(folder, { recursive: true, force: true })
}

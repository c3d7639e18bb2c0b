// Runs the benchmarks as they would be shipped: compiled, for what makes TypeScript run as it is costs a tenth of the
// speed of small functions. Words go on to test/bench/run.ts.
import { spawn } from 'node:child_process'
import { existsSync, readdirSync, rmSync, symlinkSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
// A folder of its own, so that two runs do not take each other's code away.
const built = `${root}.bench/${process.pid}`
const tsc = `${root}node_modules/typescript/bin/tsc`

/** What runs, and with which code to end when it was told to stop. */
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

/** Runs Node to the end; how it ended. */
function run(words) {
  return new Promise((resolve) => {
    child = spawn(process.execPath, words, { stdio: 'inherit' })
    child.once('exit', (code) => resolve(stopped ?? code ?? 1))
  })
}

rmSync(built, { recursive: true, force: true })
try {
  process.exitCode = await run([tsc, '-p', `${root}tsconfig.bench.json`, '--outDir', built])
  if (process.exitCode === 0) {
    // What the code reads beside itself.
    for (const name of ['sql', 'docs', 'package.json']) {
      if (!existsSync(`${built}/${name}`)) symlinkSync(`../../${name}`, `${built}/${name}`)
    }
    const words = ['--max-semi-space-size=32', `${built}/test/bench/run.js`, ...process.argv.slice(2)]
    process.exitCode = await run(words)
  }
} finally {
  rmSync(built, { recursive: true, force: true })
  // Where no other run has its code: the folder is left to the last.
  const folder = `${root}.bench`
  if (existsSync(folder) && readdirSync(folder).length === 0) rmSync(folder, { recursive: true, force: true })
}

// Builds the container image twice, without a cache, and compares the two: same digest, same bytes.
//
//   npm run image                        with docker (BuildKit), podman or buildah, the first that answers
//   npm run image -- --engine NAME       with this one
//   npm run image -- --from IMAGE        on another base than the Dockerfile's, such as one that this machine has
//   npm run image -- … -- WORDS          WORDS are further options of the engine's build
//
// Times are those of the commit, or SOURCE_DATE_EPOCH. Exits with 0; 1 where a build fails or the two differ; 2 on wrong
// usage; 3, and the reason, where no engine answers or the base image cannot be had.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const root = fileURLToPath(new URL('..', import.meta.url))
const print = (text) => process.stdout.write(`${text}\n`)

class Refusal extends Error {
  constructor(message, exitCode) {
    super(message)
    this.exitCode = exitCode
  }
}

/** Quietly; null where the program is missing. */
function ask(program, ...words) {
  const { status, stdout, stderr, error } = spawnSync(program, words, { cwd: root, encoding: 'utf8' })
  return error ? null : { isDone: status === 0, said: `${stdout}${stderr}`.trim() }
}

function run(program, ...words) {
  const { status } = spawnSync(program, words, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new Refusal(`${program} ${words[0]} failed`, 1)
}

/** The line of an engine's output that says what is wrong. */
function reasonOf(answer) {
  const lines = (answer?.said ?? 'not installed').split('\n')
  return lines.find((line) => /cannot|error|unknown|denied/i.test(line)) ?? lines.at(-1)
}

/** podman and buildah: the id of an image is the hash of its configuration, which has the hashes of its layers. */
const sameOf = (program) => ({
  isThere: () => ask(program, 'info'),
  findBase: (image) => ask(program, 'pull', image),
  open: () => () => {},
  build({ file, epoch, work, words }) {
    const id = join(work, 'id')
    // The format of Docker names the container that built it; that of OCI has no health check, which is an option of run.
    const same = ['--no-cache', '--format', 'oci', '--timestamp', epoch, '--iidfile', id, '--file', file]
    run(program, 'build', ...same, ...words, '.')
    const digest = readFileSync(id, 'utf8').trim()
    ask(program, 'rmi', digest)
    return digest
  },
})

const ENGINES = {
  docker: {
    isThere: () => {
      const plugin = ask('docker', 'buildx', 'version')
      return plugin?.isDone ? ask('docker', 'info') : plugin
    },
    findBase: (image) => ask('docker', 'buildx', 'imagetools', 'inspect', image),
    /** The usual builder cannot write an image with times of its own. */
    open(name) {
      const made = ask(
        'docker',
        'buildx',
        'create',
        '--name',
        name,
        '--driver',
        'docker-container',
        '--bootstrap',
      )
      if (!made?.isDone) throw new Refusal(`docker has no builder: ${reasonOf(made)}`, 3)
      return () => ask('docker', 'buildx', 'rm', '--force', name)
    },
    build({ name, file, epoch, work, words }) {
      const metadata = join(work, 'metadata.json')
      // A provenance statement has the times of its build: the release makes its own.
      const same = [
        '--no-cache',
        '--provenance=false',
        '--sbom=false',
        '--build-arg',
        `SOURCE_DATE_EPOCH=${epoch}`,
      ]
      const output = ['--output', `type=oci,dest=${join(work, 'image.tar')},rewrite-timestamp=true`]
      const files = ['--metadata-file', metadata, '--file', file]
      run('docker', 'buildx', 'build', '--builder', name, ...same, ...output, ...files, ...words, '.')
      return JSON.parse(readFileSync(metadata, 'utf8'))['containerimage.digest']
    },
  },
  podman: sameOf('podman'),
  buildah: sameOf('buildah'),
}

function readOptions() {
  try {
    const options = { engine: { type: 'string' }, from: { type: 'string' } }
    const own = process.argv.slice(2)
    const end = own.includes('--') ? own.indexOf('--') : own.length
    const { values } = parseArgs({ args: own.slice(0, end), options })
    if (values.engine !== undefined && !Object.hasOwn(ENGINES, values.engine))
      throw new Error(`--engine is one of ${Object.keys(ENGINES).join(', ')}`)
    return { ...values, words: own.slice(end + 1) }
  } catch (error) {
    throw new Refusal(`${error.message}\nnpm run image -- [--engine NAME] [--from IMAGE] [-- WORDS]`, 2)
  }
}

function findEngine(given) {
  const reasons = []
  for (const name of given === undefined ? Object.keys(ENGINES) : [given]) {
    const answer = ENGINES[name].isThere()
    if (answer?.isDone) return name
    reasons.push(`${name}: ${reasonOf(answer)}`)
  }
  throw new Refusal(`no container engine answers (${reasons.join('; ')})`, 3)
}

function compareTwo({ engine: given, from, words }) {
  const engine = findEngine(given)
  const { findBase, open, build } = ENGINES[engine]
  const text = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const base = /^FROM (\S+)/m.exec(text)[1]
  if (from === undefined) {
    const found = findBase(base)
    if (!found?.isDone) throw new Refusal(`${engine} cannot get ${base}: ${reasonOf(found)}`, 3)
  }
  const committed = ask('git', 'log', '-1', '--format=%ct')
  const epoch = process.env.SOURCE_DATE_EPOCH ?? (committed?.isDone ? committed.said : '0')
  const work = mkdtempSync(join(tmpdir(), 'intake-sync-image-'))
  const name = `intake-sync-image-${process.pid}`
  let close = () => {}
  try {
    const file = join(work, 'Dockerfile')
    writeFileSync(file, text.replaceAll(base, from ?? base))
    close = open(name)
    const digests = [1, 2].map((count) => {
      const digest = build({ name, file, epoch, work, words })
      print(`build ${count} with ${engine}: ${digest}`)
      return digest
    })
    if (digests[0] !== digests[1]) throw new Refusal('the two builds differ', 1)
    print('the two builds are equal')
  } finally {
    close()
    rmSync(work, { recursive: true, force: true })
  }
}

try {
  compareTwo(readOptions())
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = error.exitCode
}

// Makes the files of a release from the committed state: the package, its bill of materials, a provenance statement, the
// notes and checksums.
//
//   npm run release -- VERSION                 also writes version and changelog, commits them and sets the tag vVERSION
//   npm run release -- VERSION --dry-run       writes nothing but the files, in release/ or --out FOLDER
//   … --advisories FILE                        see release:check
//
// Publishes nothing, and prints how to. Exits with 0, 1 where something is wrong, and 2 on wrong usage.
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import semver from 'semver'

const root = fileURLToPath(new URL('..', import.meta.url))
const usage = 'npm run release -- VERSION [--dry-run] [--out FOLDER] [--advisories FILE]'

class Refusal extends Error {
  constructor(message, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

const git = (...words) =>
  execFileSync('git', words, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 }).trim()
const sha256 = (path) => createHash('sha256').update(readFileSync(path)).digest('hex')
const print = (text) => process.stdout.write(`${text}\n`)

function readOptions() {
  try {
    const options = {
      'dry-run': { type: 'boolean' },
      out: { type: 'string' },
      advisories: { type: 'string' },
    }
    const { values, positionals } = parseArgs({ options, allowPositionals: true })
    const [version, ...others] = positionals
    if (others.length > 0 || semver.valid(version) !== version)
      throw new Error('VERSION is one such as 0.2.0')
    return { ...values, version }
  } catch (error) {
    throw new Refusal(`${error.message}\n${usage}`, 2)
  }
}

/** The changelog with what is unreleased under its version, and that part alone. */
function released(changelog, version, day) {
  const found = /^## \[Unreleased\]\n([\s\S]*?)(?=^## \[|(?![\s\S]))/m.exec(changelog)
  const notes = found?.[1].trim() ?? ''
  if (!/^- /m.test(notes)) throw new Refusal('CHANGELOG.md has nothing under [Unreleased]')
  const text = changelog.replace(found[0], `## [Unreleased]\n\n## [${version}] - ${day}\n\n${notes}\n\n`)
  return { text: `${text.trimEnd()}\n`, notes: `${notes}\n` }
}

/** Version and changelog, in a folder. Returns the notes. */
function writeVersion(folder, version, day) {
  for (const name of ['package.json', 'package-lock.json']) {
    const content = JSON.parse(readFileSync(join(folder, name), 'utf8'))
    content.version = version
    if (name === 'package-lock.json') content.packages[''].version = version
    writeFileSync(join(folder, name), `${JSON.stringify(content, null, 2)}\n`)
  }
  const { text, notes } = released(readFileSync(join(folder, 'CHANGELOG.md'), 'utf8'), version, day)
  writeFileSync(join(folder, 'CHANGELOG.md'), text)
  return notes
}

/** in-toto statement of SLSA: what was built, from which commit, by what. It is not signed. */
function provenance({ files, version, commit, isDry, begun, lock }) {
  return {
    _type: 'https://in-toto.io/Statement/v1',
    subject: files.map((path) => ({
      name: path.slice(path.lastIndexOf('/') + 1),
      digest: { sha256: sha256(path) },
    })),
    predicateType: 'https://slsa.dev/provenance/v1',
    predicate: {
      buildDefinition: {
        buildType: 'urn:intake-sync:scripts/release.mjs',
        externalParameters: { version, dry_run: isDry },
        internalParameters: { node: process.version, platform: `${process.platform}-${process.arch}` },
        resolvedDependencies: [
          { uri: 'git:HEAD', digest: { gitCommit: commit } },
          { uri: 'file:package-lock.json', digest: { sha256: lock } },
        ],
      },
      runDetails: {
        builder: { id: 'urn:intake-sync:release' },
        metadata: { startedOn: begun.toISOString(), finishedOn: new Date().toISOString() },
      },
    },
  }
}

function run(folder, program, ...words) {
  const { status } = spawnSync(program, words, { cwd: folder, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new Refusal(`${words.join(' ')} failed`)
}

function release({ version, advisories, out: given, 'dry-run': isDry = false }) {
  const begun = new Date()
  const day = begun.toISOString().slice(0, 10)
  const last = git('tag', '--list', 'v*').split('\n').filter(semver.valid).sort(semver.rcompare)[0]
  if (last !== undefined && semver.lte(version, last))
    throw new Refusal(`${version} is not newer than ${last}`)
  if (!isDry && git('status', '--porcelain') !== '')
    throw new Refusal('commit or discard what is not committed first')
  const out = resolve(given ?? join(root, 'release'))
  const work = mkdtempSync(join(tmpdir(), 'intake-sync-release-'))
  try {
    const copy = join(work, 'checkout')
    mkdirSync(copy)
    execFileSync('tar', ['-x', '-C', copy], {
      input: execFileSync('git', ['archive', 'HEAD'], { cwd: root, maxBuffer: 1 << 30 }),
    })
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'))
    const notes = writeVersion(copy, version, day)
    const made = join(work, 'release')
    mkdirSync(made)
    const bill = join(made, `intake-sync-${version}.sbom.cdx.json`)
    const asked = advisories === undefined ? [] : ['--advisories', resolve(advisories)]
    run(copy, process.execPath, 'scripts/release-check.mjs', '--out', bill, ...asked)
    run(copy, process.execPath, 'scripts/build.mjs')
    run(copy, 'npm', 'pack', '--ignore-scripts', '--silent', '--pack-destination', made)
    if (!isDry) commit(copy, version)
    const files = readdirSync(made).map((name) => join(made, name))
    const statement = provenance({
      ...{ files, version, isDry, begun },
      ...{ commit: git('rev-parse', 'HEAD'), lock: sha256(join(copy, 'package-lock.json')) },
    })
    writeFileSync(
      join(made, `intake-sync-${version}.provenance.json`),
      `${JSON.stringify(statement, null, 2)}\n`,
    )
    writeFileSync(join(made, 'NOTES.md'), notes)
    const names = readdirSync(made).sort()
    writeFileSync(
      join(made, 'SHA256SUMS'),
      names.map((name) => `${sha256(join(made, name))}  ${name}\n`).join(''),
    )
    rmSync(out, { recursive: true, force: true })
    cpSync(made, out, { recursive: true })
    for (const name of [...names, 'SHA256SUMS']) print(join(out, name))
    if (isDry) print('a dry run: nothing else was changed')
    else print(`next: git push --follow-tags, then npm publish ${join(out, `intake-sync-${version}.tgz`)}`)
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

/** The files with the new version, in the checkout. */
function commit(copy, version) {
  const names = ['package.json', 'package-lock.json', 'CHANGELOG.md']
  for (const name of names) cpSync(join(copy, name), join(root, name))
  git('commit', '--quiet', '-m', `Release ${version}`, '--', ...names)
  git('tag', '-a', `v${version}`, '-m', `intake-sync ${version}`)
}

try {
  release(readOptions())
} catch (error) {
  if (!(error instanceof Refusal)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = error.exitCode
}

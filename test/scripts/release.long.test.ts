/** A release, in a repository of its own: a dry run, then the release, and what is refused. */
import { execFileSync, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { cpSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { makeFolder, removeFolder } from '../support/folders.ts'

const root = resolve(import.meta.dirname, '../..')
const isThere = spawnSync('git', ['--version']).status === 0
if (!isThere) process.stdout.write('release: git is not installed, so its tests are skipped\n')

let work: string
let checkout: string
const git = (...words: string[]) => execFileSync('git', words, { cwd: checkout, encoding: 'utf8' }).trim()
const release = (...words: string[]) => {
  const all = [join(checkout, 'scripts/release.mjs'), ...words, '--advisories', join(work, 'none.json')]
  const { status, stdout, stderr } = spawnSync(process.execPath, all, { cwd: checkout, encoding: 'utf8' })
  return { status, stdout, stderr }
}
const read = (...path: string[]) => readFileSync(join(...path), 'utf8')
const hashOf = (...path: string[]) =>
  createHash('sha256')
    .update(readFileSync(join(...path)))
    .digest('hex')

beforeAll(() => {
  if (!isThere) return
  work = makeFolder('release-')
  checkout = join(work, 'checkout')
  mkdirSync(checkout)
  const own = [
    'package.json',
    'package-lock.json',
    'tsconfig.json',
    'tsconfig.build.json',
    '.gitignore',
    'LICENSE',
  ]
  const text = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'docker-compose.yml']
  for (const name of [...own, ...text, 'src', 'sql', 'docs', 'examples', 'scripts', 'test/shipping/schema'])
    cpSync(join(root, name), join(checkout, name), { recursive: true })
  symlinkSync(join(root, 'node_modules'), join(checkout, 'node_modules'))
  writeFileSync(join(work, 'none.json'), '{}')
  git('init', '--quiet', '--initial-branch=main')
  git('config', 'user.name', 'Nobody')
  git('config', 'user.email', 'nobody@example.invalid')
  git('config', 'commit.gpgsign', 'false')
  writeFileSync(join(checkout, '.git/info/exclude'), 'node_modules\n')
  git('add', '--all')
  git('commit', '--quiet', '-m', 'Begin')
})
afterAll(() => {
  if (isThere) removeFolder(work)
})

describe.skipIf(!isThere)('npm run release', { timeout: 600_000 }, () => {
  const files = [
    'NOTES.md',
    'SHA256SUMS',
    ...['.provenance.json', '.sbom.cdx.json', '.tgz'].map((end) => `intake-sync-0.2.0${end}`),
  ]
  let dry: string

  it('in a dry run makes the files of the release, and changes nothing else', () => {
    const head = git('rev-parse', 'HEAD')
    dry = join(work, 'dry')
    const { status, stdout, stderr } = release('0.2.0', '--dry-run', '--out', dry)
    expect(status, stderr).toBe(0)
    expect(stdout).toContain('a dry run: nothing else was changed')
    expect(readdirSync(dry).sort()).toEqual(files)
    for (const line of read(dry, 'SHA256SUMS').trim().split('\n')) {
      const [hash, name] = line.split('  ') as [string, string]
      expect(hashOf(dry, name), name).toBe(hash)
    }
    expect(read(dry, 'SHA256SUMS').trim().split('\n')).toHaveLength(4)
    expect(read(dry, 'NOTES.md')).toMatch(/^- /m)

    const statement = JSON.parse(read(dry, 'intake-sync-0.2.0.provenance.json'))
    expect(statement).toMatchObject({
      _type: 'https://in-toto.io/Statement/v1',
      predicateType: 'https://slsa.dev/provenance/v1',
      predicate: { buildDefinition: { externalParameters: { version: '0.2.0', dry_run: true } } },
    })
    expect(statement.predicate.buildDefinition.resolvedDependencies[0].digest).toEqual({ gitCommit: head })
    const digests = Object.fromEntries(
      statement.subject.map(({ name, digest }: { name: string; digest: { sha256: string } }) => [
        name,
        digest.sha256,
      ]),
    )
    const subjects = ['intake-sync-0.2.0.sbom.cdx.json', 'intake-sync-0.2.0.tgz']
    expect(digests).toEqual(Object.fromEntries(subjects.map((name) => [name, hashOf(dry, name)])))
    expect(JSON.parse(read(dry, 'intake-sync-0.2.0.sbom.cdx.json'))).toMatchObject({
      bomFormat: 'CycloneDX',
      metadata: { component: { version: '0.2.0' } },
    })

    const packed = execFileSync('tar', ['-tzf', join(dry, 'intake-sync-0.2.0.tgz')], {
      encoding: 'utf8',
    }).split('\n')
    expect(packed).toEqual(
      expect.arrayContaining(['package/dist/cli.js', 'package/sql/roles.sql', 'package/docs/tour.md']),
    )
    const inside = execFileSync(
      'tar',
      ['-xzOf', join(dry, 'intake-sync-0.2.0.tgz'), 'package/package.json'],
      { encoding: 'utf8' },
    )
    expect(JSON.parse(inside).version).toBe('0.2.0')

    expect([git('rev-parse', 'HEAD'), git('status', '--porcelain'), git('tag')]).toEqual([head, '', ''])
  })

  it('commits version and changelog, sets the tag, and makes the same package', () => {
    const { status, stdout, stderr } = release('0.2.0', '--out', join(work, 'real'))
    expect(status, stderr).toBe(0)
    expect(stdout).toMatch(/^next: git push --follow-tags, then npm publish /m)
    expect([git('tag'), git('status', '--porcelain'), git('log', '-1', '--format=%s')]).toEqual([
      'v0.2.0',
      '',
      'Release 0.2.0',
    ])
    expect(git('rev-parse', 'v0.2.0^{commit}')).toBe(git('rev-parse', 'HEAD'))
    expect(JSON.parse(read(checkout, 'package.json')).version).toBe('0.2.0')
    expect(JSON.parse(read(checkout, 'package-lock.json')).packages[''].version).toBe('0.2.0')
    expect(read(checkout, 'CHANGELOG.md')).toMatch(
      /^## \[Unreleased\]\n\n## \[0\.2\.0\] - \d{4}-\d\d-\d\d\n\n/m,
    )
    for (const name of ['intake-sync-0.2.0.tgz', 'NOTES.md'])
      expect(hashOf(work, 'real', name), name).toBe(hashOf(dry, name))
    const statement = JSON.parse(read(work, 'real', 'intake-sync-0.2.0.provenance.json'))
    expect(statement.predicate.buildDefinition.resolvedDependencies[0].digest).toEqual({
      gitCommit: git('rev-parse', 'HEAD'),
    })
  })

  it('refuses a version that is not newer, a changelog without entries, and what is not committed', () => {
    expect(release('0.2.0', '--dry-run')).toMatchObject({
      status: 1,
      stderr: '0.2.0 is not newer than v0.2.0\n',
    })
    expect(release('0.3.0', '--dry-run')).toMatchObject({
      status: 1,
      stderr: 'CHANGELOG.md has nothing under [Unreleased]\n',
    })
    writeFileSync(join(checkout, 'new.txt'), '')
    expect(release('0.3.0')).toMatchObject({
      status: 1,
      stderr: 'commit or discard what is not committed first\n',
    })
    for (const words of [[], ['next'], ['0.3.0', '0.4.0'], ['0.3.0', '--nonsense']])
      expect(release(...words).status).toBe(2)
  })
})

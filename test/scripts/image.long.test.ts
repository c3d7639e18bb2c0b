/** `npm run image` compares two builds of the image: with the engine of this machine, and with ones that this file makes. */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { makeFolder, removeFolder } from '../support/folders.ts'

const script = resolve(import.meta.dirname, '../../scripts/image.mjs')
let folder: string
beforeAll(() => {
  folder = makeFolder('engines-')
})
afterAll(() => removeFolder(folder))

const image = (words: readonly string[], path = process.env.PATH) => {
  const env = { ...process.env, PATH: path, SOURCE_DATE_EPOCH: '1700000000' }
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...words], {
    encoding: 'utf8',
    env,
  })
  return { status, stdout, stderr }
}

/** A path whose only program is an engine that writes down what it is asked; `digests` are the images of its builds. */
function engine(name: string, digests: readonly string[], pulls = true) {
  const place = mkdtempSync(join(folder, 'engine-'))
  const log = join(place, 'asked.json')
  writeFileSync(log, '[]')
  const code = `
const fs = require('fs')
const words = process.argv.slice(2)
const asked = JSON.parse(fs.readFileSync(${JSON.stringify(log)}, 'utf8'))
const after = (option) => words[words.indexOf(option) + 1]
const built = asked.filter((each) => each.includes('--no-cache')).length
const dockerfile = words.includes('--file') ? [fs.readFileSync(after('--file'), 'utf8')] : []
fs.writeFileSync(${JSON.stringify(log)}, JSON.stringify([...asked, [...words, ...dockerfile]]))
const digest = ${JSON.stringify(digests)}[built]
if (words.includes('--iidfile')) fs.writeFileSync(after('--iidfile'), digest + '\\n')
if (words.includes('--metadata-file'))
  fs.writeFileSync(after('--metadata-file'), JSON.stringify({ 'containerimage.digest': digest }))
if (!${pulls} && (words.includes('pull') || words.includes('imagetools'))) {
  console.error('no such host')
  process.exit(1)
}`
  writeFileSync(join(place, name), `#!${process.execPath}\n${code}\n`)
  chmodSync(join(place, name), 0o755)
  return { path: place, asked: () => JSON.parse(readFileSync(log, 'utf8')) as readonly (readonly string[])[] }
}

it('with the engine of this machine the two builds are equal', { timeout: 3_600_000 }, ({ skip }) => {
  const { status, stdout, stderr } = image([])
  if (status === 3) {
    process.stdout.write(`image: not built, ${stderr}`)
    return skip(stderr.trim())
  }
  expect([status, stderr, stdout]).toEqual([
    0,
    expect.anything(),
    expect.stringMatching(/the two builds are equal\n$/),
  ])
})

it.each(['docker', 'podman', 'buildah'])(
  '%s builds twice without a cache, with the times of the commit',
  (name) => {
    const { path, asked } = engine(name, ['sha256:a', 'sha256:a'])
    expect(image(['--from', 'localhost/own', '--', '--network', 'host'], path)).toEqual({
      status: 0,
      stdout: `build 1 with ${name}: sha256:a\nbuild 2 with ${name}: sha256:a\nthe two builds are equal\n`,
      stderr: '',
    })
    const builds = asked().filter((words) => words.includes('--no-cache'))
    expect(builds).toHaveLength(2)
    for (const words of builds) {
      expect(words.join(' ')).toMatch(
        /--timestamp 1700000000 |--build-arg SOURCE_DATE_EPOCH=1700000000 .*,rewrite-timestamp=true /,
      )
      expect(words.slice(-4, -1)).toEqual(['--network', 'host', '.'])
      expect(words.at(-1)!.match(/^FROM \S+/gm)).toEqual(['FROM localhost/own', 'FROM localhost/own'])
      // It has times of its own.
      if (name === 'docker') expect(words).toContain('--provenance=false')
    }
    const isOver = asked().at(-1)!.join(' ')
    expect(isOver).toMatch(name === 'docker' ? /^buildx rm --force intake-sync-image-\d+$/ : /^rmi sha256:a$/)
  },
)

it('fails where the two differ, is no proof where nothing answers, and says why', () => {
  const differing = image([], engine('podman', ['sha256:a', 'sha256:b']).path)
  expect(differing).toMatchObject({ status: 1, stderr: 'the two builds differ\n' })
  const offline = image([], engine('docker', ['sha256:a', 'sha256:a'], false).path)
  expect(offline).toMatchObject({
    status: 3,
    stdout: '',
    stderr: expect.stringMatching(/^docker cannot get node:.*: no such host\n$/),
  })
  const none =
    'no container engine answers (docker: not installed; podman: not installed; buildah: not installed)\n'
  expect(image([], folder)).toEqual({ status: 3, stdout: '', stderr: none })
  expect(image(['--engine', 'podman'], folder).stderr).toBe(
    'no container engine answers (podman: not installed)\n',
  )
  for (const words of [['--engine', 'other'], ['--nonsense'], ['word']]) expect(image(words).status).toBe(2)
})

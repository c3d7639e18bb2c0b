import { spawnSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeFolder, removeFolder } from '../support/folders.ts'

/** The check of a release: advisories and the bill of materials, with an npm that this file controls where it matters. */
const script = resolve(import.meta.dirname, '../../scripts/release-check.mjs')
let folder: string
beforeAll(() => {
  folder = makeFolder('release-')
})
afterAll(() => removeFolder(folder))

const check = (words: readonly string[], env = process.env) => {
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, ...words], {
    encoding: 'utf8',
    env,
  })
  return { status, stdout, stderr }
}
const list = (name: string, content: unknown) => {
  writeFileSync(join(folder, name), JSON.stringify(content))
  return join(folder, name)
}
/** An environment whose npm prints `answers[verb]`. */
const npmThatSays = (answers: Readonly<Record<string, unknown>>) => {
  const file = list('npm.json', answers)
  const code = `console.log(JSON.stringify(JSON.parse(require('fs').readFileSync('${file}', 'utf8'))[process.argv[2]]))`
  writeFileSync(join(folder, 'npm'), `#!${process.execPath}\n${code}\n`)
  chmodSync(join(folder, 'npm'), 0o755)
  return { ...process.env, PATH: `${folder}:${process.env.PATH}` }
}
const advisory = (range: string) => ({
  ...{ id: 1, url: 'https://example.com/1', title: 'planted', severity: 'high', vulnerable_versions: range },
})

describe('release:check', () => {
  test('writes a valid bill of what a release installs, with what development needs too', () => {
    const out = join(folder, 'sbom.json')
    const words = ['--out', out, '--advisories', list('none.json', {})]
    expect(check(words)).toMatchObject({ status: 0, stdout: expect.stringContaining('0 errors') })
    const { components, metadata } = JSON.parse(readFileSync(out, 'utf8'))
    const names = components.map((each: { name: string }) => each.name)
    // npm's own --omit=dev leaves undici out, which a tool of development requires as well.
    expect(names).toEqual(expect.arrayContaining(['undici', 'pg', 'fastify']))
    expect(names).not.toContain('vitest')
    expect(metadata.component).toMatchObject({ name: 'intake-sync', type: 'application' })
  })

  test('fails with the package that an advisory names, and not for another version or a package of development', () => {
    const out = ['--out', join(folder, 'any.json')]
    const found = check([...out, '--advisories', list('one.json', { undici: [advisory('<99.0.0')] })])
    expect(found.status).toBe(1)
    expect(found.stdout).toMatch(/undici [\d.]+: high, planted \(https:\/\/example.com\/1\)/)
    const others = { undici: [advisory('<1.0.0')], vitest: [advisory('<99.0.0')] }
    expect(check([...out, '--advisories', list('others.json', others)]).status).toBe(0)
  })

  test('fails with what npm audit reports, where nobody answers, and for a bill that is not complete', () => {
    const out = ['--out', join(folder, 'any.json')]
    const sbom = { bomFormat: 'CycloneDX', specVersion: '1.5' }
    const pg = { name: 'pg', severity: 'low', range: '*' }
    const found = check(out, npmThatSays({ audit: { vulnerabilities: { pg } }, sbom }))
    expect(found).toMatchObject({ status: 1, stdout: expect.stringContaining('pg *: low') })
    expect(found.stdout).toMatch(/undici@[\d.]+ is missing/)
    const alone = check(out, npmThatSays({ audit: { error: {} }, sbom }))
    expect(alone).toMatchObject({ status: 1, stdout: expect.stringContaining('did not answer') })
    const wrong = check(out, npmThatSays({ audit: { vulnerabilities: {} }, sbom: { bomFormat: 'x' } }))
    expect(wrong).toMatchObject({ status: 1, stdout: expect.stringContaining('/bomFormat must be equal') })
  })

  test('prints what to ask a registry for; a file that is not there is wrong usage', () => {
    const { status, stdout } = check(['--request'])
    expect(status).toBe(0)
    expect(JSON.parse(stdout).pg).toEqual([expect.stringMatching(/^8\./)])
    expect(check(['--advisories', join(folder, 'nothing')]).status).toBe(2)
    expect(check(['--unknown']).status).toBe(2)
  })
})

/** The command in a checkout, as README.md runs it. */
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '../..')

test('npx finds the command in the checkout, and does not rebuild a fresh build', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
  const npx = () => String(execFileSync('npx', ['intake-sync', '--version'], { cwd: root, stdio: 'pipe' }))
  expect(npx().trim()).toBe(version)
  const built = statSync(join(root, 'dist/cli.js')).ino
  expect(npx().trim()).toBe(version)
  expect(statSync(join(root, 'dist/cli.js')).ino).toBe(built)
})

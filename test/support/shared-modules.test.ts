import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

/** Setup files of a configuration, and a test that runs in a copy of the project, under another name. */
const LOADED_ALONE = ['support/after-each-file.ts', 'mutate/setup.ts', 'adding-a-resource/drive.ts']

const folder = resolve(import.meta.dirname, '..')

test('modules that tests share have no hooks of their own: they are loaded once for many files', () => {
  const modules = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(
    (name) => /\.ts$/.test(name) && !/\.test\.ts$/.test(name) && !LOADED_ALONE.includes(name),
  )
  expect(modules.length).toBeGreaterThan(50)
  const hooked = modules.filter((name) =>
    /^(?:before|after)(?:All|Each)\(/m.test(readFileSync(join(folder, name), 'utf8')),
  )
  expect(hooked).toEqual([])
})

/** A server whose supervisor is killed while it starts, again and again, is given up. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, realpathSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { findPackage } from '../../src/embedded/package.ts'
import { openEmbedded } from '../../src/embedded/server.ts'
import { makeFolder, removeFolder } from '../support/folders.ts'

const dataDir = realpathSync(makeFolder('killed-starts-'))
const own = process.execPath
afterAll(() => {
  process.execPath = own
  removeFolder(dataDir)
})

test('ten supervisors are tried, and no lock is left', async () => {
  const [cluster, program, killed] = ['cluster', 'node', 'killed'].map((name) => join(dataDir, name)) as [
    ...[string, string, string],
  ]
  mkdirSync(cluster)
  for (const path of [dataDir, cluster]) chmodSync(path, 0o711)
  writeFileSync(join(cluster, 'PG_VERSION'), `${findPackage().major}\n`)
  writeFileSync(program, `#!/bin/sh\necho killed >>'${killed}'\nkill -9 $$\n`)
  chmodSync(program, 0o755)
  process.execPath = program
  await expect(openEmbedded({ dataDir })).rejects.toMatchObject({ code: 'embedded_not_started' })
  process.execPath = own
  expect(readFileSync(killed, 'utf8')).toBe('killed\n'.repeat(10))
  expect(readdirSync(dataDir).filter((name) => name.startsWith('lock'))).toEqual([])
})

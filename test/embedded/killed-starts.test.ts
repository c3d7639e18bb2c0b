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

test('ten supervisors are tried, each to keep what is committed through a power cut, and no lock is left', async () => {
  const [cluster, program, orders] = ['cluster', 'node', 'orders'].map((name) => join(dataDir, name)) as [
    ...[string, string, string],
  ]
  mkdirSync(cluster)
  for (const path of [dataDir, cluster]) chmodSync(path, 0o711)
  writeFileSync(join(cluster, 'PG_VERSION'), `${findPackage().major}\n`)
  writeFileSync(program, `#!/bin/sh\n{ cat; echo; } >>'${orders}'\nkill -9 $$\n`)
  chmodSync(program, 0o755)
  process.execPath = program
  await expect(openEmbedded({ dataDir })).rejects.toMatchObject({ code: 'embedded_not_started' })
  process.execPath = own
  const ordered = readFileSync(orders, 'utf8').trim().split('\n')
  expect(ordered.map((line) => JSON.parse(line).unsafe)).toEqual(Array(10).fill(false))
  expect(readdirSync(dataDir).filter((name) => name.startsWith('lock'))).toEqual([])
})

/** `init` against the emulator in each of its shapes. */
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startEmulator } from '../../../src/emulator/server.ts'
import { SHAPE_NAMES } from '../../../src/emulator/shapes/catalogue.ts'
import { openWarehouse, SMALL, variablesOf } from '../../e2e/support/scene.ts'
import type { TestDatabase } from '../../support/database.ts'
import { makeFolder, removeFolder } from '../../support/folders.ts'
import { runCommand } from '../../support/run-command.ts'

let warehouse: TestDatabase
let folder: string
beforeAll(async () => {
  warehouse = await openWarehouse()
  folder = makeFolder('init-shapes-')
})
afterAll(async () => {
  removeFolder(folder)
  await warehouse.drop()
})

it.each(SHAPE_NAMES)('%s: every list is read, or one sentence names what to set', async (shape) => {
  const emulator = await startEmulator({ ...SMALL, shape })
  try {
    const env = {
      ...variablesOf(emulator),
      ...{ DATABASE_URL: warehouse.url, INTAKE_TEAM: shape.replace(/[^\w.-]/g, '-'), LOG_LEVEL: 'silent' },
    }
    const words = ['init', '--json', '--file', join(folder, `${shape}.env`)]
    const { code, stdout } = await runCommand(words, env)
    const { teams, error } = JSON.parse(stdout)
    // Redirects are not followed: the paths have to be configured.
    if (shape === 'trailing-slash')
      return expect([code, error.hint]).toEqual([1, expect.stringContaining('paths')])
    expect(code).toBe(0)
    expect(teams[0].streams.filter((each: { error: string | null }) => each.error !== null)).toEqual([])
  } finally {
    await emulator.close()
  }
})

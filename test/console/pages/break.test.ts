/** Damage on purpose is watched until it has healed, has failed, or ten minutes are over. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { Damage } from '../../../src/console/shared.ts'
import { systemClock } from '../../../src/core/clock.ts'
import { openWarehouse, query } from '../../e2e/support/scene.ts'
import { type Reader, startConsole } from '../support/console.ts'

let warehouse: Awaited<ReturnType<typeof openWarehouse>>
let page: Awaited<ReturnType<typeof startConsole>>
let operator: Reader
/** Of the damage of each name. */
const damages = new Map<string, () => Promise<Damage>>()
/** Seconds that pass in each pause between two looks. */
let pause = 1
let later = 0

const EVERY_MS = 250

beforeAll(async () => {
  warehouse = await openWarehouse()
  const breakages = ['heals', 'whole', 'lasts', 'fails', 'never', 'other'].map((name) => ({
    ...{ name, title: `Break ${name}`, heals: 'itself', run: () => damages.get(name)!() },
  }))
  const clock = {
    now: () => systemClock.now() + later,
    sleep: async (milliseconds: number, signal?: AbortSignal) => {
      if (milliseconds !== EVERY_MS) return await systemClock.sleep(milliseconds, signal)
      later += pause * 1e6
      await new Promise((resolve) => setImmediate(resolve))
    },
  }
  page = await startConsole(warehouse.url, { breakages, clock })
  operator = await page.enter('operator')
})
afterAll(async () => {
  await page?.close()
  await warehouse?.drop()
})

/** Breaks it, and returns its row once it is not broken any more: what, damage, state, seen after, healed after. */
async function ended(name: string): Promise<string> {
  expect((await operator.post(`/break/${name}`)).status).toBe(303)
  const row = async () => {
    const { text } = await operator.get('/break')
    const rows = text.split('<tbody>')[1]!.split('</tr>')
    return rows
      .find((each) => each.includes(`Break ${name}`))!
      .replace(/<[^>]*>/g, ' ')
      .replace(/\s+/g, ' ')
      .trim()
  }
  await expect.poll(row).not.toContain(' broken ')
  return await row()
}

const damage = (more: Partial<Damage>) => async (): Promise<Damage> => ({
  ...{ text: 'damaged', heal: async () => {}, isHealed: async () => true, ...more },
})

it('damage is seen when the tables differ, and healed when they no longer do; a warehouse that is away counts as damage', async () => {
  const looks = [true, false, false]
  const isHealed = async () => {
    const away = looks.pop()
    if (away === false && looks.length === 1) throw new Error('away')
    return away ?? true
  }
  pause = 3
  damages.set('heals', damage({ isHealed }))
  expect(await ended('heals')).toMatch(/^Break heals damaged healed 0(?:\.\d)? s 6(?:\.\d)? s$/)
  damages.set('whole', damage({}))
  expect(await ended('whole')).toMatch(/^Break whole damaged healed – 0(?:\.\d)? s$/)
})

it('damage that does not heal, or whose repair fails, has failed; it can be caused again', async () => {
  pause = 200
  damages.set('lasts', damage({ isHealed: async () => false }))
  expect(await ended('lasts')).toMatch(/^Break lasts damaged failed 0(?:\.\d)? s 10 min$/)
  const heal = async () => {
    throw new Error('canary')
  }
  damages.set('fails', damage({ heal, isHealed: async () => false }))
  expect(await ended('fails')).toMatch(/^Break fails damaged failed /)
  expect(await ended('fails')).toMatch(/^Break fails damaged failed /)
  damages.set('never', async () => {
    throw new Error('canary')
  })
  const never = await ended('never')
  expect(never).toMatch(/^Break never \S.* failed – /)
  expect(never).not.toContain('canary')
})

it('nothing is broken that could not be audited, and it may be tried again', async () => {
  let times = 0
  damages.set('other', async () => {
    times += 1
    return await damage({})()
  })
  await query(warehouse.url, 'alter table intake_ops.audit rename to audit_away')
  expect((await operator.post('/break/other')).status).toBe(503)
  await query(warehouse.url, 'alter table intake_ops.audit_away rename to audit')
  expect(times).toBe(0)
  expect(await ended('other')).toMatch(/^Break other damaged healed /)
  const viewer = await page.enter('viewer')
  const { text } = await viewer.get('/break')
  expect([text.includes('Break other'), text.includes('<form method="post" action="/break')]).toEqual([
    true,
    false,
  ])
})

it('the newest fifty are shown, the newest first', async () => {
  damages.set('whole', damage({}))
  damages.set('heals', damage({}))
  for (let times = 0; times < 51; times += 1) await ended('whole')
  await ended('heals')
  const { text } = await operator.get('/break')
  const rows = text.split('<tbody>')[1]!.split('</tbody>')[0]!.split('</tr>').slice(0, -1)
  expect(rows).toHaveLength(50)
  expect(rows.map((row) => row.includes('Break heals'))).toEqual([true, ...Array(49).fill(false)])
})

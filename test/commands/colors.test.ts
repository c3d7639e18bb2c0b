/** On a terminal, a color marks what needs somebody, and nothing else. */
import { expect, it } from 'vitest'
import { checksText } from '../../src/commands/inspect/doctor.ts'
import { explainText } from '../../src/commands/inspect/explain.ts'
import { runsText } from '../../src/commands/inspect/runs.ts'
import { listText } from '../../src/commands/manage/classify-actions.ts'
import { deadLetterText } from '../../src/commands/manage/dead-letters-text.ts'

const contextOf = (columns: number) => {
  const stdout = { write: () => true, isTTY: true, columns }
  return { env: {}, stdout, stderr: stdout, signal: new AbortController().signal, version: '' }
}
const context = contextOf(120)

const NAMES = { 31: 'red', 32: 'green', 33: 'yellow', 2: 'dim' } as Readonly<Record<string, string>>

/** The first word of each colored part, by its color. */
function colorsIn(text: string): readonly string[] {
  const parts = text.matchAll(/\u001b\[(\d+)m\s*(\S+)[^\u001b]*\u001b\[(\d+)m/g)
  return [...parts].map(([, color, word]) => `${NAMES[color!]}: ${word}`)
}

it('runs: red those that failed, yellow those that were interrupted or need attention', () => {
  const statuses = ['failed', 'succeeded', 'interrupted', 'running', 'needs_attention']
  const runs = statuses.map((status, at) => ({
    ...{ run_id: at + 1, kind: 'backfill', status, started_at: '2026-01-01T00:00:00Z', finished_at: null },
    ...{ seconds: 1, error: null, streams: [] },
  }))
  expect(colorsIn(runsText(context, runs as unknown as Parameters<typeof runsText>[1]))).toEqual([
    ...['red: 1', 'yellow: 3', 'yellow: 5'],
  ])
})

it('checks: green what is right, yellow a warning, red a failure', () => {
  const check = (status: 'ok' | 'warning' | 'failed') => ({ name: 'n', status, detail: 'd', hint: null })
  expect(colorsIn(checksText(context, [check('failed'), check('ok'), check('warning')]))).toEqual([
    ...['red: failed', 'green: ok', 'yellow: warning'],
  ])
})

it('the current state of a record is green, the reason of a dead letter yellow', () => {
  const state = (supersededAt: string | null) => ({
    ...{ version: 'v', observedAt: 'o', deleted: false, hash: 'abcdef01', origin: 'x', payload: null },
    ...{ supersededAt, wonBy: null, changes: [] },
  })
  const explained = {
    ...{ states: [state('2026-01-02T00:00:00Z'), state(null)], events: [], deadLetters: [], refetch: null },
    runs: new Map(),
  } as unknown as Parameters<typeof explainText>[1]
  const about = { team: 'north', stream: 'patients', id: 'p', withValues: false }
  expect(colorsIn(explainText(context, explained, about))).toEqual(['green: current'])
  const dead = {
    ...{
      id: 1,
      team: 'north',
      stream: 'forms',
      record_id: null,
      origin: 'x',
      reason: 'odd',
      status: 'waiting',
    },
    ...{ seen: 1, created_at: '2026-01-01T00:00:00Z', last_seen_at: '2026-01-01T00:00:00Z', body: null },
    ...{ last_run_id: null, settled_at: null },
  } as unknown as Parameters<typeof deadLetterText>[1]
  expect(colorsIn(deadLetterText(context, dead, false))).toEqual(['yellow: odd'])
})

it('the name of a form above its questions is dim', () => {
  const question = (form: string) => ({
    ...{ team: 't', form, form_id: 'f', question_text: 'Why?', question_type: 'number', question_id: 'q' },
    ...{ shows: 'structured', decided_by: 'type', waits: false, concept: null },
  })
  const questions = ['First', 'First', 'Second'].map(question) as unknown as Parameters<typeof listText>[1]
  expect(colorsIn(listText(contextOf(50), questions))).toEqual(['dim: First', 'dim: Second'])
})

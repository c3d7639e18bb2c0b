/**
 * Every command as users see it: on a terminal of 80 columns no line is wider, in a pipe there is no colour and nothing
 * is cut, and `--json` is one document.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { everyCommand, runProgram } from '../../src/commands/program.ts'
import { withoutPauses } from '../e2e/support/impatient.ts'
import { openScene, query, type Scene } from '../e2e/support/scene.ts'
import { ANYWHERE } from '../e2e/support/serving.ts'
import type { Variables } from '../support/cli.ts'
import { runCommand } from '../support/run-command.ts'

withoutPauses()

const WIDTH = 80
const ESCAPE = '\u001b'

let scene: Scene
let env: Variables
let patient: string
let question: string
let configId: string
let folder: string
let csv: string

beforeAll(async () => {
  scene = await openScene({ patients: 9, forms: 3, packets: 2, documents: 1, responses: 12, pageSize: 4 })
  env = { ...scene.env, ...ANYWHERE, LOG_LEVEL: 'warn' }
  const { control } = scene.emulator
  control.updatePatient(control.world().patients.at(1)!.id, { city: 'refused', last_name: 'x'.repeat(200) })
  await query(scene.url, "alter table intake.patients add check (city <> 'refused')")
  await runCommand(['backfill', '--json'], env)
  patient = control.world().patients.at(3)!.id
  question = control.world().forms.at(0)!.questions[1]!.id
  // Content of a warehouse after some years.
  await query(
    scene.url,
    `insert into intake_ops.drift (team_id, stream, path, type, count)
       select team_id, 'patients', 'a_field_' || n, 'string', 7 from intake.teams, generate_series(1, 30) n;
     insert into intake_ops.dead_letters (team_id, stream, record_id, fingerprint, origin, reason, seen)
       select team_id, stream, repeat('r', 36), 'f' || stream, 'event:' || repeat('e', 36),
         'an event that holds a part of a record which nobody can be asked for, and for long', 12345
       from intake.teams, unnest(array['webhook_deliveries', 'packet_responses', 'inbox']) stream;
     insert into intake_raw.inbox (team_id, event_id, body_hash, received_on, received_at, event_type, source, record_id, body)
       select team_id, 'e', '\\x00', current_date, now() - interval '20 minutes', 'updated', 'patient', '${patient}', '{}'
       from intake.teams;
     update intake_ops.runs set finished_at = finished_at - interval '1 minute';
     update intake.responses set form_name = 'by hand' where id in (select id from intake.responses limit 8);
     delete from intake.webhook_deliveries`,
  )
  const made = await runCommand(['webhooks', 'create', '--url', 'http://127.0.0.1:9/webhooks', '--json'], env)
  configId = JSON.parse(made.stdout).id
  folder = mkdtempSync(join(tmpdir(), 'intake-sync-terminal-'))
  csv = join(folder, 'people.csv')
  writeFileSync(
    csv,
    `first_name,last_name,email\nAnn,Lee,ann@example.com\nBo,Li,${'no e-mail '.repeat(20)}\n`,
  )
})

afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await scene?.[Symbol.asyncDispose]()
})

/** Each with its exit code; `{patient}` and the like are filled in. */
const COMMANDS: readonly (readonly [string, number])[] = [
  ['migrate', 0],
  ['migrate --status', 0],
  ['status', 0],
  ['status --max-age 1s', 4],
  ['runs', 0],
  ['runs --limit 1', 0],
  ['doctor', 1],
  ['verify --deep', 4],
  ['verify --streams responses --repair', 0],
  ['replay', 0],
  ['replay --inbox --since 2020-01-01', 0],
  ['explain patients {patient}', 0],
  ['explain patients {patient} --show-values', 0],
  ['explain patients nobody', 1],
  ['dead-letters list', 0],
  ['dead-letters list --status all', 0],
  ['dead-letters show 2', 0],
  ['dead-letters show 1 --show-values', 0],
  ['dead-letters retry 3', 0],
  ['backfill --dry-run', 4],
  ['backfill', 4],
  ['backfill --streams nothing', 2],
  ['webhooks list', 0],
  ['webhooks events', 0],
  ['webhooks update {config} --active true', 0],
  ['classify list', 0],
  ['classify set {question} visible', 0],
  ['access list', 0],
  ['patients upload {csv}', 4],
  ['erase patient nobody --yes', 1],
  ['erase patient', 2],
  ['no-such-command', 2],
]

/** Lines that are shown unchanged, and so may be wider: values. */
const AS_IT_IS = ['--show-values']

const wordsOf = (line: string) =>
  line
    .split(' ')
    .map((word) =>
      word
        .replace('{patient}', patient)
        .replace('{question}', question)
        .replace('{config}', configId)
        .replace('{csv}', csv),
    )

const tooWide = (text: string) =>
  stripVTControlCharacters(text)
    .split('\n')
    .filter((line) => [...line].length > WIDTH)

describe('each command', () => {
  it.each(COMMANDS)('%s', async (line, code) => {
    const words = wordsOf(line)
    const shown = await runCommand(words, env, { columns: WIDTH })
    expect(shown.code, shown.output).toBe(code)
    if (!AS_IT_IS.some((option) => line.includes(option)))
      expect.soft(tooWide(shown.stdout), 'on a terminal').toEqual([])
    const piped = await runCommand(words, env)
    expect(piped.output).not.toContain(ESCAPE)
    // On a terminal too.
    const { stdout, stderr } = await runCommand([...words, '--json'], env, { columns: WIDTH })
    expect.soft(() => JSON.parse(stdout), stdout.slice(0, 300)).not.toThrow()
    expect(`${stdout}${stderr}`).not.toContain(ESCAPE)
  })
})

describe('failures', () => {
  // The events that the doctor reports are drained by then.
  const failing = COMMANDS.filter(([line, code]) => line !== 'doctor' && (code === 1 || code === 2))
  it.each(failing)('%s', async (line, expected) => {
    const said: string[] = []
    const output = {
      write: (text: string | Uint8Array) => said.push(String(text)),
      isTTY: true,
      columns: WIDTH,
    }
    const code = await runProgram(wordsOf(line), {
      ...{ env, stdout: output, stderr: output, version: '0.0.0' },
      signal: new AbortController().signal,
    })
    expect(code).toBe(expected)
    expect(said.join('')).toContain('error: ')
    expect(said.join('')).toMatch(
      /code: (\w+), see \u001b\]8;;file:\S+\/docs\/errors\.md#\1\u001b\\docs\/errors\.md#\1/,
    )
    expect(tooWide(said.join(''))).toEqual([])
  })
})

const program = await everyCommand({
  ...{ env: {}, stdout: { write: () => true }, stderr: { write: () => true } },
  ...{ signal: new AbortController().signal, version: '' },
})

describe('the help of each command', () => {
  const lines = program.flatMap((command) => [
    command.name(),
    ...command.commands.map((nested) => `${command.name()} ${nested.name()}`),
  ])
  it.each(['', ...lines])('%s --help', async (line) => {
    const words = line === '' ? [] : line.split(' ')
    const { code, stdout } = await runCommand([...words, '--help'], env, { columns: WIDTH })
    expect([code, tooWide(stdout)]).toEqual([0, []])
    expect(stdout).toContain('Usage: intake-sync')
    const piped = (await runCommand([...words, '--help'], env)).stdout
    expect(piped.split('\n').filter((text) => text.length > 80)).toEqual([])
  })
})

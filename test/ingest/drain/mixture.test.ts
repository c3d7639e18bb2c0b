/**
 * A batch with events of several streams and teams, whose records have the same ids, leaves in each team the same rows as
 * draining its events alone; and no event is retried alone.
 */
import pino from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { hashesOf, noteErased } from '../../../src/load/erasures.ts'
import { teamIdOf } from '../../../src/load/teams.ts'
import { forms } from '../../../src/streams/forms.ts'
import { messages } from '../../../src/streams/messages.ts'
import { packetResponses } from '../../../src/streams/packet-responses.ts'
import { patients } from '../../../src/streams/patients.ts'
import { dumpStream } from '../../support/tables.ts'
import { type Event, noonPlus, openScene, patient, type Scene } from './scene.ts'

const STREAMS = [patients, forms, messages, packetResponses]

let scene: Scene
let teams: { readonly name: string; readonly teamId: number }[]

beforeEach(async () => {
  scene = await openScene()
  teams = [{ name: 'default', teamId: scene.teamId }]
  for (const name of ['second', 'third']) teams.push({ name, teamId: await teamIdOf(scene.session.db, name) })
})

afterEach(async () => {
  await scene[Symbol.asyncDispose]()
})

let sent = 0

function event(source: string, seconds: number, data: unknown, type = 'updated'): Event {
  sent += 1
  return { id: `mixed-${sent}`, timestamp: noonPlus(seconds), event_type: type, source, data }
}

/** Record `n` of team `team` in round `round`: each team has another number of children, under the same ids. */
function stateOf(source: string, team: number, n: number, round: number): object {
  const name = `team ${team} round ${round}`
  const updated_at = noonPlus(round)
  const id = `r${n}`
  if (source === 'patient') {
    const patient_tags = Array.from({ length: team + round }, (_, at) => ({
      name: `${name} ${at}`,
      color: '#000',
    }))
    const emergency_contact = { first_name: name, last_name: 'C' }
    return patient(id, { last_name: name, patient_tags, emergency_contact, updated_at })
  }
  if (source === 'form') {
    const questions = Array.from({ length: team + 1 }, (_, at) => ({
      id: `q${at}`,
      text: `${name} ${at}`,
      order: at,
      question_type: { question_type: 'short_text', question_subtype: null },
    }))
    return { id, name, text: '', enabled: true, created_at: noonPlus(-9), updated_at, questions }
  }
  if (source === 'message') {
    return {
      id,
      message_type: 'sms',
      content: name,
      status: 'sent',
      patient: `p${n}`,
      created_at: noonPlus(-9),
      updated_at,
    }
  }
  const responses = Array.from({ length: team }, (_, at) => `m${at}`)
  return { id, is_submitted: false, form_index: round, responses, created_at: noonPlus(-9), updated_at }
}

const SOURCES = ['patient', 'form', 'message', 'packet_response']

/** Rounds of events of a team: each record is created, changed, sometimes deleted; some events are late or duplicate. */
function eventsOf(team: number, records: number): readonly Event[] {
  return [1, 2, 3].flatMap((round) =>
    SOURCES.flatMap((source) =>
      Array.from({ length: records }, (_, n) => n).flatMap((n): Event[] => {
        const seconds = round * 10 + n / 100
        if (round === 3 && n % 7 === team) return [event(source, seconds, { id: `r${n}` }, 'deleted')]
        const own = event(source, seconds, stateOf(source, team, n, round))
        const late = n % 5 === team ? [event(source, seconds - 9, stateOf(source, team, n, round - 1))] : []
        return n % 6 === team ? [own, own, ...late] : [own, ...late]
      }),
    ),
  )
}

async function drainAll(of = teams, batch = 1_000): Promise<readonly string[]> {
  const logged: string[] = []
  const logger = pino({ level: 'warn' }, { write: (line: string) => logged.push(line) })
  await scene.drain({ teams: of, batch, logger })
  return logged
}

async function dump(teamId: number): Promise<readonly string[]> {
  const lines: string[] = []
  for (const stream of STREAMS) lines.push(...(await dumpStream(scene.session, stream, teamId)))
  return lines
}

const asks = (teamId: number) =>
  scene.rows('select stream, id, reason from intake_ops.refetches where team_id = $1 order by 1, 2', [teamId])

async function asksOfAll() {
  const all = []
  for (const { teamId } of teams) all.push(await asks(teamId))
  return all
}

describe('three teams with the same ids, four streams, one batch', () => {
  test('each team ends with the rows that its events give when drained alone', async () => {
    const all = teams.map((_, team) => eventsOf(team, 24))
    const longest = Math.max(...all.map((events) => events.length))
    for (let at = 0; at < longest; at++)
      for (const [team, { teamId }] of teams.entries()) {
        const next = all[team]![at]
        if (next !== undefined) await scene.store([next], { teamId })
      }
    expect(await drainAll()).toEqual([])
    expect(Object.keys(await scene.inbox())).toEqual(['done'])

    for (const [team, { teamId }] of teams.entries()) {
      const alone = await teamIdOf(scene.session.db, `alone ${team}`)
      await scene.store(all[team]!, { teamId: alone })
      expect(await drainAll([{ name: 'alone', teamId: alone }], 10_000)).toEqual([])
      const expected = await dump(alone)
      expect(expected.length).toBeGreaterThan(150)
      expect(await dump(teamId)).toEqual(expected)
      expect(await asks(teamId)).toEqual(await asks(alone))
      expect((await asks(alone)).length).toBeGreaterThan(0)
    }
  })

  test('conflicts of one stream are found only in that stream and team', async () => {
    for (const { teamId } of teams) {
      for (const source of SOURCES)
        await scene.store([event(source, 20, stateOf(source, 1, 1, 2))], { teamId })
    }
    await drainAll()
    await scene.rows('delete from intake_ops.refetches')
    // Late in the first team's messages and the second's patients; newer everywhere else.
    for (const [team, { teamId }] of teams.entries()) {
      for (const source of SOURCES) {
        const isLate = (team === 0 && source === 'message') || (team === 1 && source === 'patient')
        await scene.store([event(source, isLate ? 10 : 30, stateOf(source, 2, 1, isLate ? 1 : 3))], {
          teamId,
        })
      }
    }
    expect(await drainAll()).toEqual([])
    expect(await asksOfAll()).toEqual([
      [{ stream: 'messages', id: 'r1', reason: 'contested' }],
      [{ stream: 'patients', id: 'r1', reason: 'contested' }],
      [],
    ])
    expect(await scene.rows(`select team_id, content from intake.messages order by 1`)).toEqual([
      { team_id: teams[0]!.teamId, content: 'team 1 round 2' },
      { team_id: teams[1]!.teamId, content: 'team 2 round 3' },
      { team_id: teams[2]!.teamId, content: 'team 2 round 3' },
    ])
  })

  test('a record that one team erased stays in the others', async () => {
    for (const { teamId } of teams)
      await scene.store([event('patient', 1, stateOf('patient', 1, 1, 1))], { teamId })
    await scene.store([event('patient', 1, stateOf('patient', 1, 2, 1))], { teamId: teams[1]!.teamId })
    const erasures = await hashesOf(scene.session.db, teams[1]!.teamId)
    await noteErased(scene.session.db, erasures, 'r1', [{ stream: 'patients', id: 'r1' }])
    expect(await drainAll()).toEqual([])
    expect(await scene.rows('select team_id, id from intake.patients order by 1')).toEqual([
      { team_id: teams[0]!.teamId, id: 'r1' },
      { team_id: teams[1]!.teamId, id: 'r2' },
      { team_id: teams[2]!.teamId, id: 'r1' },
    ])
  })

  test('an event without a usual field of its own team causes a refetch, whatever other teams have', async () => {
    const bare = (id: string) => ({ id, message_type: 'sms', content: 'x', updated_at: noonPlus(1) })
    const whole = (id: string) => ({ ...bare(id), status: 'sent', patient: 'p', created_at: noonPlus(0) })
    await scene.store([event('message', 1, whole('old'))], { teamId: teams[0]!.teamId })
    await scene.store([event('message', 1, { ...bare('old'), created_at: noonPlus(0) })], {
      teamId: teams[1]!.teamId,
    })
    await drainAll()
    await scene.rows('delete from intake_ops.refetches')
    for (const { teamId } of teams.slice(0, 2))
      await scene.store([event('message', 2, { ...bare('new'), created_at: noonPlus(0) })], { teamId })
    expect(await drainAll()).toEqual([])
    expect(await asksOfAll()).toEqual([[{ stream: 'messages', id: 'new', reason: 'partial' }], [], []])
  })
})

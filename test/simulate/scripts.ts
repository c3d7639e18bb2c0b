/**
 * Situations that random choices reach too rarely, as a few steps that each wait for a condition; the rest is random.
 *
 * Invariant: a script does nothing that the service and its clinic could not do.
 */

import { NO_FIELDS } from '../../src/emulator/http/resources/patient-body.ts'
import {
  generateAnswers,
  openResponse,
  saveAnswers,
  submitResponse,
} from '../../src/emulator/world/clinic-responses.ts'
import { Draw, keyOf } from '../../src/emulator/world/draw.ts'
import type { Response } from '../../src/emulator/world/records.ts'
import { makePatient } from '../../src/emulator/world/seeded/make-patient.ts'
import type { World } from '../../src/emulator/world/world.ts'
import type { ScriptName } from './plan.ts'
import type { Run } from './runs.ts'
import type { Scene } from './scene.ts'
import type { Actor } from './scheduler.ts'
import { someParts } from './workers.ts'

/** The condition of a script's step, or a finished night: then the result of its run is checked. */
export type Step =
  | { readonly kind: 'wait'; readonly label: string; readonly when: () => boolean }
  | { readonly kind: 'night'; readonly run: Run; readonly since: number }

export type Script = Generator<Step, void, void>

export const SCRIPT: Readonly<Record<ScriptName, (scene: Scene) => Script>> = {
  nights,
  'shifting pages': shiftingPages,
  'an overtaken event': overtakenEvent,
  'a late event': lateEvent,
  'a paused worker': pausedWorker,
}

const HOUR_MS = 3_600_000

/**
 * A response is submitted, days pass, and the night's run does not finish: if the cursor moved before that, the next
 * night misses the response.
 */
function* nights(scene: Scene): Script {
  const { choice, scheduler } = scene
  yield* calmRun(scene, 'everything')
  for (let left = 1 + choice.below(2); left > 0; left--) {
    for (let some = 1 + choice.below(3); some > 0; some--) submitOne(scene)
    scheduler.leap((120 + choice.below(20)) * HOUR_MS)
    yield* brokenRun(scene)
    // A newer response makes the window of a moved cursor seem complete.
    for (let some = choice.one([0, 1, 1, 1, 2]); some > 0; some--) submitOne(scene)
    scheduler.leap(choice.below(22) * HOUR_MS)
    const since = scene.first.service.world.clock.now()
    const run = yield* calmRun(scene, 'new')
    if (run !== null) yield { kind: 'night', run, since }
    scene.weather = 'as planned'
  }
}

/**
 * While pages are read, the first record is deleted and another created at once: the first entry of the next page is on
 * no page that is read, and the counts agree nevertheless.
 */
function* shiftingPages(scene: Scene): Script {
  const { choice, scheduler, runs } = scene
  const { heard } = scene.first
  yield* calmRun(scene, 'everything')
  scheduler.leap(HOUR_MS)
  const run = runs.start('everything')
  for (let left = 1 + choice.below(2); left > 0 && !run.over; left--) {
    const before = heard.answers
    yield wait('a page was read', () => run.over || heard.answers > before)
    if (!run.over) shift(scene)
  }
  yield wait('the run is over', () => run.over)
  scene.weather = 'as planned'
}

/**
 * Two events of a response; the earlier one arrives late with newer content: its patient's new name, which no event
 * reports. The later one is in a slow drain by then.
 */
function* overtakenEvent(scene: Scene): Script {
  const { scheduler, serves, plan, drained } = scene
  const { sender, service } = scene.first
  const { world } = service
  yield wait('all serve', () => serves.ready.length === plan.serves)
  const [first, ...others] = shuffled(scene, knownResponses(scene))
  // A session creates its staging tables at its first batch, and then claims again.
  for (const { actor } of serves.ready) {
    scene.dawdler = actor
    const before = drained.events
    touch(world, first!)
    yield wait('an event is drained', () => drained.events > before)
  }
  scene.dawdler = null
  for (const response of others) {
    sender.treat(response.id, 'kept back')
    touch(world, response)
    sender.treat(response.id, 'as usual')
    scheduler.leap(5)
    const [taken, events] = [drained.takers.length, drained.events]
    touch(world, response)
    yield wait('the later event is taken', () => drained.takers.length > taken)
    scene.dawdler = drained.takers.at(-1)!
    rename(scene, response)
    sender.release(response.id)
    yield wait('both are drained', () => drained.events >= events + 2)
    scene.dawdler = null
  }
}

/**
 * A late event with its patient's new name loses to a newer page with different content. A refetch returns the new name,
 * or, if the response was deleted without an event, 404: that answer is the only sign.
 */
function* lateEvent(scene: Scene): Script {
  const { choice, scheduler, serves, plan } = scene
  const { sender, service } = scene.first
  const { world } = service
  yield wait('all serve', () => serves.ready.length === plan.serves)
  const response = choice.one(knownResponses(scene))
  sender.treat(response.id, 'kept back')
  touch(world, response)
  sender.treat(response.id, 'never sent')
  scheduler.leap(3_000)
  yield* calmRun(scene, 'everything')
  scene.weather = 'as planned'
  scheduler.leap(3_000)
  rename(scene, response)
  if (choice.chance(0.6)) world.responses.remove(response.id)
  const isStored = acknowledgedAfter(scene, response.id)
  sender.release(response.id)
  yield wait('the late event is stored', isStored)
}

/** Longest time of a step with a paused worker. */
const PAUSED_MS = 60_000
/** After these statements, or after any: a claim, the last of a scan, the two of a settle, the end of a run. */
const PAUSED_AFTER = [
  ...[null, null, null],
  /set state = 'claimed'/,
  /"intake_ops"."scans"/,
  /"intake_ops"."scans"/,
  /select from intake_ops\.slices where slice_id/,
  /update intake_ops\.slices set state/,
  /update intake_ops\.runs set status/,
]
/** Nobody takes its slice before. */
const SILENT_MS = 11_000

/**
 * A worker is paused at a statement between the claim of a slice and its end, until another has its slice and has come some
 * way with it; then the first goes on with what it was doing.
 */
function* pausedWorker(scene: Scene): Script {
  const { choice, scheduler, workers, hindrances, plan } = scene
  for (let left = 2 + choice.below(2); left > 0; left--) {
    yield wait('all work', () => workers.started === plan.workers && workers.busy === 0)
    const its: { victim: Actor | null; paused: Actor | null; pausedAt: number } = {
      victim: null,
      paused: null,
      pausedAt: 0,
    }
    const at = choice.one(PAUSED_AFTER)
    let [statements, claims, others] = [choice.below(choice.one([8, 30])), 0, 0]
    scene.spy = (actor, text) => {
      if (!actor.name.startsWith('worker')) return
      const isClaim = /set state = 'claimed'/.test(text)
      if (its.paused !== null) {
        if (actor === its.paused || scheduler.now() < its.pausedAt + SILENT_MS * 1_000) return
        if (isClaim) claims += 1
        else if (claims > 0) others += 1
      } else if (its.victim === null ? isClaim : actor === its.victim) {
        its.victim ??= actor
        statements -= 1
        if (at === null ? statements >= 0 : !at.test(text)) return
        Object.assign(its, { paused: actor, pausedAt: scheduler.now() })
        hindrances.pause(actor, choice.chance(0.7) ? 'stopped' : 'cut off', 4 * PAUSED_MS)
      }
    }
    workers.plan(choice.chance(0.7) ? 'everything' : 'new', someParts(choice))
    const isLate = (since: number) => scheduler.now() > since + PAUSED_MS * 1_000
    const begun = scheduler.now()
    yield wait('a worker is paused', () => its.paused !== null || isLate(begun))
    const [since, enough] = [scheduler.now(), choice.one([0, 0, 5, 15, 40])]
    if (its.paused === null) return
    yield wait('another has its slice', () => (claims > 0 && others >= enough) || isLate(since))
    hindrances.end(its.paused)
    scene.spy = null
  }
}

function wait(label: string, when: () => boolean): Step {
  return { kind: 'wait', label, when }
}

/** The calm continues. Null when the run cannot start, for example because of one that Postgres does not know to be gone. */
function* calmRun(scene: Scene, kind: 'everything' | 'new'): Generator<Step, Run | null, void> {
  scene.weather = 'calm'
  for (let left = 5; left > 0; left--) {
    const run = scene.runs.start(kind)
    yield wait('a run is over', () => run.over)
    if (run.summary?.status === 'succeeded') return run
  }
  return null
}

/** Ended during its pages, or cut off from the service. */
function* brokenRun(scene: Scene): Generator<Step, void, void> {
  const { choice, runs, processes } = scene
  const { heard } = scene.first
  const [run, before, some] = [runs.start('new'), heard.answers, choice.one([0, 1, 1, 1, 2, 3])]
  yield wait('some pages were read', () => run.over || heard.answers - before >= some)
  if (!run.over && choice.chance(0.85)) processes.kill(run.actor)
  else {
    scene.weather = 'cut off'
    yield wait('the run has given up', () => run.over)
  }
}

/** True once an event of the record has been acknowledged after now. */
function acknowledgedAfter({ first: { sender } }: Scene, id: string): () => boolean {
  const before = sender.acknowledged.length
  return () => sender.acknowledged.slice(before).some((event) => event.id === id)
}

/** Responses of existing patients; the world of a script has some. */
function knownResponses({ first: { service } }: Scene): readonly Response[] {
  const { responses, patients } = service.world
  return responses.slice(0, responses.size).filter(({ patient }) => patients.get(patient) !== undefined)
}

function shuffled<Each>({ choice }: Scene, all: readonly Each[]): readonly Each[] {
  const placed = all.map((each) => ({ each, at: choice.share() }))
  return placed.sort((a, b) => a.at - b.at).map(({ each }) => each)
}

function touch(world: World, { id }: Response): void {
  const updated_at = world.now()
  world.responses.update(id, (old) => ({ ...old, is_archived: !old.is_archived, updated_at }))
}

function rename({ choice, first: { service } }: Scene, { patient }: Response): void {
  const [last_name, updated_at] = [`Renamed ${choice.below(1000)}`, service.world.now()]
  service.world.patients.update(patient, (old) => ({ ...old, last_name, updated_at }))
}

function openOne({ choice, first: { service } }: Scene): Response | undefined {
  const { patients, forms } = service.world
  const [patient] = patients.slice(choice.below(Math.max(1, patients.size)), 1)
  const [form] = forms.slice(0, 1)
  if (patient === undefined || form === undefined) return undefined
  const nothing = { packet: null, document: null, message: null, packet_response: null }
  return openResponse(service.world, { ...nothing, patient: patient.id, form: form.id })
}

function submitOne(scene: Scene): void {
  const { world } = scene.first.service
  const response = openOne(scene)
  if (response === undefined) return
  const draw = new Draw(keyOf('submitted', response.id), 0)
  saveAnswers(world, response.id, generateAnswers(world, response, draw, 'mixed'))
  submitResponse(world, response.id)
}

function shift(scene: Scene): void {
  const { plan, scheduler } = scene
  const { service } = scene.first
  const { world } = service
  scheduler.note('the first goes, and another comes')
  if (plan.streams.includes('responses')) {
    const [first] = world.responses.slice(0, 1)
    if (first !== undefined && openOne(scene) !== undefined) world.responses.remove(first.id)
    return
  }
  const [first] = world.patients.slice(0, 1)
  const now = world.now()
  world.patients.create((id, index) => {
    const made = makePatient(world.patients.ids, world.key, index)
    return { ...NO_FIELDS, ...made, id, created_at: now, updated_at: now }
  })
  if (first !== undefined) world.patients.remove(first.id)
}

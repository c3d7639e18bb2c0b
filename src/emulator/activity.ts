/**
 * A living clinic: patients come, change and leave, and forms are reworded, at a given pace.
 *
 * Invariant: the n-th change is a function of the seed and of the world it finds; nothing happens after `signal`
 * aborts. Of twenty changes about nine create, eight edit, two delete a patient, and one rewords a question.
 */
import type { Clock } from './clock.ts'
import { NO_FIELDS } from './http/patient-body.ts'
import { Draw, keyOf } from './world/draw.ts'
import { makePatient } from './world/make-patient.ts'
import type { World } from './world/world.ts'

/** Changes `world` `rate` times a second until `signal` aborts. */
export function startActivity(
  world: World,
  rate: number,
  seed: string,
  clock: Clock,
  signal: AbortSignal,
): void {
  const key = keyOf(seed, 'activity')
  const start = clock.now()
  let done = 0
  const run = async () => {
    while (!signal.aborted) {
      await clock.sleep(Math.max(10, 1000 / rate), signal)
      const due = Math.floor(((clock.now() - start) / 1_000_000) * rate)
      for (; done < due && !signal.aborted; done += 1) changeSomething(world, new Draw(key, done))
    }
  }
  void run()
}

/** Makes one change, chosen by `draw`. */
export function changeSomething(world: World, draw: Draw): void {
  const kind = draw.below(20)
  const someone = () => world.patients.slice(draw.below(Math.max(1, world.patients.size)), 1)[0]
  const now = world.now()
  if (kind < 9) {
    world.patients.create((id, index) => {
      const made = makePatient(world.patients.ids, world.key, index)
      return { ...NO_FIELDS, ...made, id, created_at: now, updated_at: now }
    })
    return
  }
  if (kind < 17) {
    const patient = someone()
    const phone = `555${draw.digits(7)}`
    const change =
      kind < 13 ? { phone_number: phone } : { address2: `Apt ${draw.below(90)}`, patient_tags: [] }
    if (patient !== undefined)
      world.patients.update(patient.id, (old) => ({ ...old, ...change, updated_at: now }))
    return
  }
  if (kind < 19) {
    const patient = someone()
    if (patient !== undefined) world.patients.remove(patient.id)
    return
  }
  const form = world.forms.slice(draw.below(Math.max(1, world.forms.size)), 1)[0]
  if (form === undefined || form.questions.length === 0) return
  const at = draw.below(form.questions.length)
  const questions = form.questions.map((one, place) =>
    place === at ? { ...one, text: `${one.text.replace(/ \(v\d+\)$/, '')} (v${draw.below(100)})` } : one,
  )
  world.forms.update(form.id, (old) => ({ ...old, questions, updated_at: now }))
}

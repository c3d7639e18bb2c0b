/**
 * Changes at the source: those of an ordinary clinic, and the kinds that are hard to follow: two at the same time, one
 * soon after the other, a delete of a new record.
 */
import { changeSomething } from '../../src/emulator/world/clinic-changes.ts'
import { Draw, keyOf } from '../../src/emulator/world/draw.ts'
import type { Patient, Response } from '../../src/emulator/world/records.ts'
import type { Row, Table } from '../../src/emulator/world/table.ts'
import type { World } from '../../src/emulator/world/world.ts'
import type { Choice } from './choice.ts'
import type { SimulatedStream } from './history.ts'
import { openPacketChanges, PACKET_CHANGES } from './packet-changes.ts'

export interface Changes {
  /** Makes a change; returns its description. */
  next(): string
}

export function openChanges(world: World, choice: Choice, streams: readonly SimulatedStream[]): Changes {
  const key = keyOf('simulated', choice.below(2 ** 31))
  let done = 0

  const some = <T extends Row>(table: Table<T>) =>
    table.size === 0 ? undefined : table.slice(choice.below(table.size), 1)[0]

  const KINDS: Readonly<Record<string, () => boolean>> = {
    'the clinic goes on': () => {
      changeSomething(world, new Draw(key, done))
      return true
    },
    'a patient is renamed': () => rename(some(world.patients)),
    'a patient is renamed twice in one moment': () => {
      const patient = some(world.patients)
      return rename(patient) && rename(patient)
    },
    'a patient is renamed and deleted in one moment': () => {
      const patient = some(world.patients)
      return rename(patient) && world.patients.remove(patient!.id) !== undefined
    },
    'a patient is deleted': () => remove(world.patients),
    'a response is deleted': () => remove(world.responses),
    'a response is archived': () => archive(some(world.responses)),
    'a form is reworded': () => restamp(world.forms),
    'a form is deleted': () => world.forms.size > 1 && remove(world.forms),
    'a packet is reworded': () => restamp(world.packets),
    'a document is reworded': () => restamp(world.documents),
    ...openPacketChanges(world, choice, key),
  }
  const ABOUT: Readonly<Record<SimulatedStream, readonly string[]>> = {
    patients: [
      'a patient is renamed',
      'a patient is renamed',
      'a patient is renamed and deleted in one moment',
      'the clinic goes on',
      'a patient is renamed twice in one moment',
      'a patient is deleted',
    ],
    responses: [
      'a response is deleted',
      'a response is archived',
      'a patient is renamed',
      'the clinic goes on',
    ],
    forms: ['a form is reworded', 'a form is deleted'],
    packets: ['a packet is reworded', 'a form is reworded'],
    documents: ['a document is reworded'],
    messages: ['the clinic goes on', 'a patient is deleted'],
    packet_responses: PACKET_CHANGES,
  }

  function rename(patient: Patient | undefined): boolean {
    if (patient === undefined) return false
    const [last_name, updated_at] = [`Renamed ${choice.below(1000)}`, world.now()]
    return world.patients.update(patient.id, (old) => ({ ...old, last_name, updated_at })) !== undefined
  }

  function archive(response: Response | undefined): boolean {
    if (response === undefined) return false
    const updated_at = world.now()
    return (
      world.responses.update(response.id, (old) => ({
        ...old,
        is_archived: !old.is_archived,
        updated_at,
      })) !== undefined
    )
  }

  function restamp<T extends Row & { readonly name: string; readonly updated_at: string }>(
    table: Table<T>,
  ): boolean {
    const row = some(table)
    const [name, updated_at] = [`Renamed ${choice.below(1000)}`, world.now()]
    return row !== undefined && table.update(row.id, (old) => ({ ...old, name, updated_at })) !== undefined
  }

  function remove<T extends Row>(table: Table<T>): boolean {
    const row = some(table)
    return row !== undefined && table.remove(row.id) !== undefined
  }

  return {
    next() {
      done += 1
      const kind = choice.chance(0.35) ? 'the clinic goes on' : choice.one(ABOUT[choice.one(streams)])
      return KINDS[kind]!() ? kind : `${kind}, in vain`
    },
  }
}

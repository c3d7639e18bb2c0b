/**
 * The life of packets that are sent and filled in (specification, sections 3.2 and 6): set up, progress, submission
 * with and without members that the packet's logic skips; and kinds of change that are difficult for events.
 */
import {
  advancePacket,
  archivePacket,
  setUpPacket,
  submitPacket,
} from '../../src/emulator/world/clinic-responses.ts'
import { Draw, type keyOf } from '../../src/emulator/world/draw.ts'
import type { PacketResponse } from '../../src/emulator/world/records.ts'
import type { World } from '../../src/emulator/world/world.ts'
import type { Choice } from './choice.ts'

export const PACKET_CHANGES = [
  'a packet is sent',
  'a packet is sent',
  'a packet goes on',
  'a packet goes on',
  'a packet is submitted',
  'a packet is submitted',
  'a packet goes on and is submitted in one moment',
  'a packet is archived',
  'a packet is archived and deleted in one moment',
  'a packet is archived and deleted in one moment',
  'a packet is deleted',
] as const

export type PacketChange = (typeof PACKET_CHANGES)[number]

/** Each returns whether there was anything to change. */
export function openPacketChanges(
  world: World,
  choice: Choice,
  key: ReturnType<typeof keyOf>,
): Readonly<Record<PacketChange, () => boolean>> {
  const { packetResponses } = world
  let done = 0
  const draw = () => {
    done += 1
    return new Draw(key, 1_000_000 + done)
  }
  const some = (): PacketResponse | undefined =>
    packetResponses.size === 0 ? undefined : packetResponses.slice(choice.below(packetResponses.size), 1)[0]
  const open = () => {
    const found = some()
    return found === undefined || found.is_submitted ? undefined : found
  }

  function send(): boolean {
    if (world.patients.size === 0 || world.packets.size === 0) return false
    const [patient] = world.patients.slice(choice.below(world.patients.size), 1)
    const [packet] = world.packets.slice(choice.below(world.packets.size), 1)
    setUpPacket(world, { patient: patient!.id, packet: packet!.id, document: null, message: null })
    return true
  }

  function submit(packet: PacketResponse | undefined): boolean {
    if (packet === undefined) return false
    const skipped = packet.responses.flatMap((_, at) => (choice.chance(0.4) ? [at] : []))
    return submitPacket(world, packet.id, draw(), new Set(skipped)) !== undefined
  }

  const advance = (packet: PacketResponse | undefined) =>
    packet !== undefined && advancePacket(world, packet.id, draw()) !== undefined
  const archive = (packet: PacketResponse | undefined) =>
    packet !== undefined && archivePacket(world, packet.id) !== undefined
  const remove = (packet: PacketResponse | undefined) =>
    packet !== undefined && packetResponses.remove(packet.id) !== undefined

  return {
    'a packet is sent': send,
    'a packet goes on': () => advance(open()),
    'a packet is submitted': () => submit(open()),
    'a packet goes on and is submitted in one moment': () => {
      const packet = open()
      return advance(packet) && submit(packet)
    },
    'a packet is archived': () => archive(some()),
    'a packet is archived and deleted in one moment': () => {
      const packet = some()
      return archive(packet) && remove(packet)
    },
    'a packet is deleted': () => remove(some()),
  }
}

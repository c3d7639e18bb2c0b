/**
 * Packets (specification, section 4.3).
 *
 * Invariant: reads only; every call goes through the client's shared request budget.
 */
import type { Client } from '../client.ts'
import { Packet } from '../shapes/packet.ts'
import { type CallOptions, type Got, getById, type ListOptions, list, type TypedScan } from './resource.ts'

/** `GET /v2/packets` (section 4.3): pages of packets. */
export function listPackets(client: Client, options?: ListOptions): TypedScan<Packet> {
  return list(client, 'packets', 'packets', Packet, options)
}

/** `GET /v2/packets/{id}` (section 4.3): one packet; verdict `gone` when there is none of this id. */
export function getPacket(client: Client, id: string, options?: CallOptions): Promise<Got<Packet>> {
  return getById(client, 'packet', Packet, id, options)
}

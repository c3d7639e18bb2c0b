/**
 * Roles, one-time links, sessions and the tokens of forms.
 *
 * Invariant: a link works once and for an hour; only hashes of links are kept. A session ends with the process, on logout
 * and after twelve hours.
 */
import { createHash, createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { ROLES, type Role } from '../core/peers.ts'

export const LOGIN = /^[\w.@+-]{1,100}$/

export interface Visitor {
  /** Of the session; unlike its cookie, it is no secret. */
  readonly id: string
  readonly login: string
  readonly role: Role
}

export interface Sessions {
  /** Returns the secret of a new one-time link. */
  link(login: string, role: Role): string
  /** Uses a link up. Returns the secret of a new session, or null if the link is unknown, used or old. */
  enter(link: string): { readonly secret: string; readonly visitor: Visitor } | null
  /** Null if there is no such session. */
  find(secret: string): Visitor | null
  /** False after logout and at the end of the session. */
  isOpen(id: string): boolean
  /** The visitor of a login that a proxy named; new at first, after logout and after twelve hours. */
  admit(login: string, role: Role): { readonly visitor: Visitor; readonly isNew: boolean }
  leave(visitor: Visitor): void
  /** The token that a form of this visitor carries. */
  formToken(visitor: Visitor): string
  isFormToken(visitor: Visitor, token: unknown): boolean
}

const LINK_MICROS = 3_600_000_000
const SESSION_MICROS = 12 * LINK_MICROS
/** The oldest go first. */
const MAX_KEPT = 1_000

interface Timed {
  readonly visitor: Visitor
  readonly until: number
}

export function openSessions(clock: Clock): Sessions {
  const key = randomBytes(32)
  const links = new Map<string, Timed>()
  const sessions = new Map<string, Timed>()
  /** By role and login, as a proxy names them: no cookie finds them. */
  const admitted = new Map<string, Timed>()

  const add = (map: Map<string, Timed>, visitor: Visitor, micros: number): string => {
    const secret = randomBytes(32).toString('base64url')
    keep(map, secret, visitor, micros)
    return secret
  }
  const keep = (map: Map<string, Timed>, secret: string, visitor: Visitor, micros: number): void => {
    map.set(hashOf(secret), { visitor, until: clock.now() + micros })
    for (const [oldest] of map) {
      if (map.size <= MAX_KEPT) break
      map.delete(oldest)
    }
  }
  const valid = (map: Map<string, Timed>, secret: string): Visitor | null => {
    const found = map.get(hashOf(secret))
    return found !== undefined && found.until > clock.now() ? found.visitor : null
  }
  const formToken = ({ id }: Visitor) => createHmac('sha256', key).update(`form ${id}`).digest('base64url')

  return {
    link: (login, role) => add(links, { id: '', login, role }, LINK_MICROS),
    enter(link) {
      const invited = valid(links, link)
      links.delete(hashOf(link))
      if (invited === null) return null
      const visitor = { ...invited, id: randomBytes(12).toString('base64url') }
      return { secret: add(sessions, visitor, SESSION_MICROS), visitor }
    },
    find: (secret) => valid(sessions, secret),
    admit(login, role) {
      const name = `${role} ${login}`
      const known = valid(admitted, name)
      if (known !== null) return { visitor: known, isNew: false }
      const visitor = { login, role, id: randomBytes(12).toString('base64url') }
      keep(admitted, name, visitor, SESSION_MICROS)
      return { visitor, isNew: true }
    },
    isOpen: (id) =>
      [...sessions.values(), ...admitted.values()].some(
        ({ visitor, until }) => visitor.id === id && until > clock.now(),
      ),
    leave({ id }) {
      for (const map of [sessions, admitted])
        for (const [hash, { visitor }] of map) if (visitor.id === id) map.delete(hash)
    },
    formToken,
    isFormToken: (visitor, token) => typeof token === 'string' && isSame(token, formToken(visitor)),
  }
}

export function mayAct({ role }: Visitor, required: Role): boolean {
  return ROLES.indexOf(role) >= ROLES.indexOf(required)
}

function hashOf(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function isSame(left: string, right: string): boolean {
  return timingSafeEqual(Buffer.from(hashOf(left)), Buffer.from(hashOf(right)))
}

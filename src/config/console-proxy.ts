/** A proxy in front of the console that logs people in and names them in a header (oauth2-proxy and others). */
import type { BlockList } from 'node:net'
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { networksOf } from '../core/peers.ts'

const CONSOLE_ROLES = ['viewer', 'operator', 'steward'] as const
type ConsoleRole = (typeof CONSOLE_ROLES)[number]

export interface ConsoleProxy {
  /** Its headers are believed in connections from these addresses only. */
  readonly addresses: BlockList
  /** In lower case. */
  readonly loginHeader: string
  /** Names of groups, comma-separated; null: none are read. */
  readonly groupsHeader: string | null
  /** By login or group; `*` for everybody whom the proxy names. */
  readonly roles: ReadonlyMap<string, ConsoleRole>
}

export const proxies = z.string().transform((text, context) => {
  const networks = networksOf(text.split(',').map((text) => text.trim()))
  if (networks === null) context.addIssue({ code: 'custom' })
  return networks
})

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,64}$/)
  .transform((name) => name.toLowerCase())

/** `ada@example.org=operator,care-team=viewer`. */
const rolesOfLogins = z.string().transform((text, context) => {
  const roles = new Map<string, ConsoleRole>()
  for (const part of text.split(',')) {
    const [, name, word] = /^\s*(\*|[\w.@+:/-]{1,100})\s*=\s*(\w+)\s*$/.exec(part) ?? []
    const role = CONSOLE_ROLES.find((each) => each === word)
    if (name === undefined || role === undefined) context.addIssue({ code: 'custom' })
    else roles.set(name, role)
  }
  return roles
})

export const CONSOLE_PROXY = {
  INTAKE_CONSOLE_PROXIES: ['addresses or networks, comma-separated (10.0.0.0/8)', proxies],
  INTAKE_CONSOLE_LOGIN_HEADER: ['the name of a header', headerName],
  INTAKE_CONSOLE_GROUPS_HEADER: ['the name of a header', headerName],
  INTAKE_CONSOLE_ROLES: ['logins or groups with roles (ada@example.org=operator,*=viewer)', rolesOfLogins],
} as const
type Settings = typeof CONSOLE_PROXY

/** Null without a header of logins. Throws `UsageError` where what it needs is missing. */
export function consoleProxyOf(
  value: <Name extends keyof Settings>(name: Name) => z.infer<Settings[Name][1]> | null,
): ConsoleProxy | null {
  const loginHeader = value('INTAKE_CONSOLE_LOGIN_HEADER')
  const addresses = value('INTAKE_CONSOLE_PROXIES')
  const roles = value('INTAKE_CONSOLE_ROLES')
  const groupsHeader = value('INTAKE_CONSOLE_GROUPS_HEADER')
  if (loginHeader === null) return null
  if (addresses !== null && roles !== null) return { addresses, loginHeader, groupsHeader, roles }
  const missing = addresses === null ? 'INTAKE_CONSOLE_PROXIES' : 'INTAKE_CONSOLE_ROLES'
  const message =
    'INTAKE_CONSOLE_LOGIN_HEADER needs the addresses that may send it, and the role of each login'
  throw new UsageError(message, `set ${missing}`, 'INTAKE_CONSOLE_LOGIN_HEADER')
}

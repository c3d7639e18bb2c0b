/** A proxy in front of the console that logs people in and names them in a header (oauth2-proxy and others). */
import { z } from 'zod'
import { UsageError } from '../core/errors.ts'
import { type LoginProxy, networksOf, ROLES, type Role } from '../core/peers.ts'

export const proxies = z.string().transform((text, context) => {
  const networks = networksOf(text.split(',').map((text) => text.trim()))
  if (networks === null) context.addIssue({ code: 'custom' })
  return networks
})

const headerName = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,64}$/)
  .transform((name) => name.toLowerCase())

/** `ada@example.org=operator,group:care-team=viewer,*=viewer`. No login contains a colon. */
const rolesOfLogins = z.string().transform((text, context): LoginProxy['roles'] => {
  const [logins, groups] = [new Map<string, Role>(), new Map<string, Role>()]
  let others: Role | null = null
  for (const part of text.split(',')) {
    const [, group, login, word] =
      /^\s*(?:group:([\w.@+:/-]{1,100})|(\*|[\w.@+-]{1,100}))\s*=\s*(\w+)\s*$/.exec(part) ?? []
    const role = ROLES.find((each) => each === word)
    if (role === undefined) context.addIssue({ code: 'custom' })
    else if (group !== undefined) groups.set(group, role)
    else if (login === '*') others = role
    else logins.set(login!, role)
  }
  return { logins, groups, others }
})

export const CONSOLE_PROXY = {
  INTAKE_CONSOLE_PROXIES: ['addresses or networks, comma-separated (10.0.0.0/8)', proxies],
  INTAKE_CONSOLE_LOGIN_HEADER: ['the name of a header', headerName],
  INTAKE_CONSOLE_GROUPS_HEADER: ['the name of a header', headerName],
  INTAKE_CONSOLE_ROLES: [
    'roles of logins, of groups and of others (ada@example.org=operator,group:care=viewer,*=viewer)',
    rolesOfLogins,
  ],
} as const
type Settings = typeof CONSOLE_PROXY

/** Null without a header of logins. Throws `UsageError` where what it needs is missing. */
export function consoleProxyOf(
  value: <Name extends keyof Settings>(name: Name) => z.infer<Settings[Name][1]> | null,
): LoginProxy | null {
  const loginHeader = value('INTAKE_CONSOLE_LOGIN_HEADER')
  const addresses = value('INTAKE_CONSOLE_PROXIES')
  const roles = value('INTAKE_CONSOLE_ROLES')
  const groupsHeader = value('INTAKE_CONSOLE_GROUPS_HEADER')
  if (loginHeader === null) return null
  if (groupsHeader === null && roles !== null && roles.groups.size > 0)
    throw new UsageError(
      'INTAKE_CONSOLE_ROLES gives roles to groups, and no header names the groups of a login',
      'set INTAKE_CONSOLE_GROUPS_HEADER',
      'INTAKE_CONSOLE_ROLES',
    )
  if (addresses !== null && roles !== null) return { addresses, loginHeader, groupsHeader, roles }
  const missing = addresses === null ? 'INTAKE_CONSOLE_PROXIES' : 'INTAKE_CONSOLE_ROLES'
  const message =
    'INTAKE_CONSOLE_LOGIN_HEADER needs the addresses that may send it, and the role of each login'
  throw new UsageError(message, `set ${missing}`, 'INTAKE_CONSOLE_LOGIN_HEADER')
}

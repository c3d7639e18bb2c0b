/** Reasons of problems and dead letters, written out: people filter by them. */
export const NOT = {
  id: 'not an id',
  time: 'not an ISO 8601 time',
  date: 'not an ISO date',
  boolean: 'not true or false',
  integer: 'not a whole number of four bytes',
  array: 'not an array',
  bigint: 'not a whole number of eight bytes',
  texts: 'not a list of texts',
  object: 'not an object',
  answer: 'not an answer',
  choice: 'not a choice',
} as const

export const REWRITTEN = 'holds what Postgres cannot; written visibly'
export const RENAMED = 'a field name that Postgres cannot hold; written visibly'
export const TOO_GREAT = 'a number beyond what Postgres can hold; kept as text'
export const TOO_LONG_A_KEY = 'a name too long for a key'
export const FROM_THE_FUTURE = "more than 5 minutes ahead of the service's clock; does not count as version"
export const TOO_DEEP = 'nested more than 400 levels deep'
export const NOT_AN_OBJECT = 'not an object'
export const NO_ID = 'has no id'
export const INEXACT_ID = 'has an id that JSON numbers cannot carry exactly'
export const UNUSABLE_ID = 'has an id that cannot be a key'

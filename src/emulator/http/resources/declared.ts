/** Lists and records of the resources that one file each declares. */
import { DECLARED } from '../../resources/catalogue.ts'
import type { Route } from '../call.ts'
import { readOnly } from './forms.ts'

export const DECLARED_ROUTES: readonly Route[] = DECLARED.flatMap(({ resource, source }) =>
  readOnly(
    resource,
    (world) => world.declared(source),
    (row) => row,
  ),
)

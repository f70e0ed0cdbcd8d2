/* What config.c's tables ask of values beyond their types and ranges; complaints go to the scope.
 *
 * May look at this host: at its groups and its folders. One thread at a time, as config_load.
 */
#pragma once

#include "base/schema.h"

/* Of one value, of the type that its field has. False: it is wrong. */
bool config_check_socket(const struct scope *scope, const struct field *field, void *value);
bool config_check_mode(const struct scope *scope, const struct field *field, void *value);
bool config_check_group(const struct scope *scope, const struct field *field, void *value);
bool config_check_store_url(const struct scope *scope, const struct field *field, void *value);
bool config_check_endpoint(const struct scope *scope, const struct field *field, void *value);
bool config_check_state_dir(const struct scope *scope, const struct field *field, void *value);
bool config_check_path(const struct scope *scope, const struct field *field, void *value);
bool config_check_name(const struct scope *scope, const struct field *field, void *value);
bool config_check_query(const struct scope *scope, const struct field *field, void *value);

/* Of a whole part, once its values are read; they also fill in what follows from others. `object`
   is a limits_policy, a policy, a warm_policy, a config; the keyspaces come after the origin, the
   plans after both. */
void config_check_limits(const struct scope *scope, void *object);
void config_check_keyspace(const struct scope *scope, void *object);
void config_check_plan(const struct scope *scope, void *object);
void config_check_whole(const struct scope *scope, void *object);

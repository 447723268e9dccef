// Private to hub: the cells of tables that are more than what stands at a path.
#pragma once

#include "base/time.h"
#include "json/value.h"

namespace cadre::hub {

// Each is what one column says of a whole object, which has its defaults. Pure.
using Cell = json::Value(const json::Value& object, Time now);

Cell configMapData;
Cell endpointsList;
Cell eventLastSeen, eventObject, eventSubobject, eventSource, eventMessage, eventFirstSeen,
    eventCount;
Cell nodeStatus, nodeRoles, nodeInternalIp, nodeExternalIp;
Cell phaseOrTerminating, storageClassOf;
Cell claimCapacity, claimAccessModes;
Cell volumeCapacity, volumeAccessModes, volumeClaim;
Cell podReady, podStatus, podRestarts, podIp, podReadinessGates;
Cell quotaRequests, quotaLimits;
Cell serviceClusterIp, serviceExternalIp, servicePorts;
Cell controllerName;
Cell replicasReady, plainSelector;
Cell cronJobSuspended;
Cell jobStatus, jobCompletions, jobDuration;
Cell ingressClassParameters, ingressHosts, ingressAddress, ingressPorts;
Cell bindingRole, bindingUsers, bindingGroups, bindingServiceAccounts;
Cell budgetMinimum, budgetMaximum;
Cell autoscalerReference, autoscalerTargets, autoscalerMinimum;
Cell slicePorts, sliceEndpoints;
Cell driverTokenRequests, driverModes;
Cell storageClassName;

}  // namespace cadre::hub
